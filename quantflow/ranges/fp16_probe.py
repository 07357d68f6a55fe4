"""How the values of one float32 array fare in fp16, without a copy of them.

The bit patterns of magnitudes are in the order of the magnitudes, infinity and NaN last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.rounding import FP16_FLUSH, FP16_SMALLEST_NORMAL

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITE = np.uint32(0x7F800000)
_TO_SIGN = np.uint32(0x80000000 - 0x7F800000)
_NORMAL = np.float32(FP16_SMALLEST_NORMAL).view(np.uint32)
_FLUSH = np.float32(FP16_FLUSH).view(np.uint32)

_IN_CACHE = 1 << 16
"""Values whose patterns stay in a core's cache."""


class Measures(NamedTuple):
    """What is measured of an array.

    Attributes:
        absmax: largest finite magnitude; 0 when there is none.
        finite: whether all values are finite.
        subnormal: share, 0-1, that is non-zero and below the smallest normal fp16 value.
        flushed: share that is non-zero and becomes zero.
    """

    absmax: float
    finite: bool
    subnormal: float
    flushed: float


def measure(values: NDArray[np.float32]) -> Measures:
    """Measure an array of any shape; shares of no values are 0."""
    patterns = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint32)
    magnitudes = np.empty(min(len(patterns), _IN_CACHE), np.uint32)
    flags = np.empty(len(magnitudes), bool)
    largest, finite, small, tiny, zero = 0, True, 0, 0, 0
    for start in range(0, len(patterns), _IN_CACHE):
        part = patterns[start : start + _IN_CACHE]
        x, flag = magnitudes[: len(part)], flags[: len(part)]
        np.bitwise_and(part, _MAGNITUDE, out=x)
        small += np.count_nonzero(np.less(x, _NORMAL, out=flag))
        tiny += np.count_nonzero(np.less_equal(x, _FLUSH, out=flag))
        zero += len(x) - np.count_nonzero(x)
        top = int(x.max())
        if top >= _INFINITE:
            finite, top = False, _largest_finite(x)
        largest = max(largest, top)
    absmax, count = float(np.uint32(largest).view(np.float32)), max(len(patterns), 1)
    return Measures(absmax, finite, (small - zero) / count, (tiny - zero) / count)


def _largest_finite(patterns: NDArray[np.uint32]) -> int:
    """Of some magnitudes, which it overwrites; 0 when none is finite."""
    # Read as signed, what is not finite becomes negative.
    patterns += _TO_SIGN
    return max(int(patterns.view(np.int32).max()) - int(_TO_SIGN), 0)
