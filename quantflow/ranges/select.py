"""The range in force for one tensor: the configured estimator's, or the one `auto` chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.ranges_record import TensorRange
from quantflow.config import Estimator
from quantflow.ranges.auto import choose
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.estimators import EstimatorSettings, candidates


@dataclass(frozen=True, slots=True)
class Selection:
    """Every candidate's bounds by name, the name of the chosen one, and why."""

    candidates: dict[str, Bounds]
    chosen: str
    reason: str

    def range_of(self, tensor: str, *, symmetric: bool) -> TensorRange:
        """The chosen range as a record."""
        bounds = self.candidates[self.chosen]
        return TensorRange(
            tensor=tensor,
            low=float(bounds.low),
            high=float(bounds.high),
            estimator=self.chosen,
            symmetric=symmetric,
            reason=self.reason,
        )


def select_range(
    seen: TensorStatistics,
    weights: Sequence[NDArray[np.float32]],
    settings: EstimatorSettings,
    *,
    estimator: Estimator,
    per_channel: bool,
) -> Selection:
    """Choose a tensor's range.

    Args:
        seen: its statistics on the calibration set.
        weights: ``(K, N_i)`` float32 weights of the layers that read it.
        settings: what estimators are told.
        estimator: one of the table, or `auto`.
        per_channel: whether weights have one scale per output channel.
    """
    found = candidates(seen.histogram, settings)
    if estimator != "auto":
        return Selection(found, estimator, "")
    choice = choose(
        seen.rows, weights, found, symmetric=settings.symmetric, per_channel=per_channel
    )
    return Selection(found, choice.name, choice.reason)
