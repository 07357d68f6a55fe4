"""The ranges of all tensors as one estimator gives them, whatever is configured."""

from __future__ import annotations

from collections.abc import Mapping

from quantflow.artifacts.ranges_record import TensorRange
from quantflow.graph.layer_settings import TensorSettings
from quantflow.ranges.estimators import ESTIMATORS, EstimatorSettings
from quantflow.ranges.grid import Histogram


def ranges_by(
    estimator: str, histograms: Mapping[str, Histogram], settings: Mapping[str, TensorSettings]
) -> tuple[TensorRange, ...]:
    """One range a tensor.

    Args:
        estimator: any of `ESTIMATORS`.
        histograms: by tensor.
        settings: whether a tensor is symmetric, and the percentile.
    """
    found = list[TensorRange]()
    for tensor, told in settings.items():
        asked = EstimatorSettings(symmetric=told.symmetric, percentile=told.percentile)
        low, high = ESTIMATORS[estimator](histograms[tensor], asked)
        found.append(
            TensorRange(
                tensor=tensor,
                low=float(low),
                high=float(high),
                estimator=estimator,
                symmetric=told.symmetric,
            )
        )
    return tuple(found)
