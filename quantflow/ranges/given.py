"""The range that a quantized file gives a tensor, as bounds that yield its scale and zero point."""

from __future__ import annotations

from collections.abc import Mapping

from quantflow.artifacts.ranges_record import TensorRange
from quantflow.numerics.quantize import QMAX, QMIN, QuantParams
from quantflow.ranges.bounds import Bounds

ESTIMATOR = "given"
"""Name of the range in reports, beside those of the estimators."""

REASON = "from the quantized file"


def given_bounds(params: QuantParams) -> Bounds:
    """The outermost levels; symmetric ones with zero point 0, as `activation_params` wants them.

    Products of a float32 and an integer below 256 are exact in float64, so that scale and zero
    point come back exactly.
    """
    scale, zero = params.scale, params.zero_point
    lowest = -QMAX if zero == 0 else QMIN
    return Bounds((lowest - zero) * scale, (QMAX - zero) * scale)


def given_ranges(params: Mapping[str, QuantParams]) -> list[TensorRange]:
    """The ranges of all tensors of a file, given their scales and zero points by name."""
    ranges = list[TensorRange]()
    for tensor, entry in params.items():
        low, high = given_bounds(entry)
        ranges.append(
            TensorRange(
                tensor=tensor,
                low=low,
                high=high,
                estimator=ESTIMATOR,
                symmetric=entry.zero_point == 0,
                reason=REASON,
            )
        )
    return ranges
