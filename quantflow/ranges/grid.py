"""The histogram of a tensor, on a grid that is the same for every tensor and needs no tuning.

A bin is the upper half of the float32 bit pattern: sign, exponent and 7 mantissa bits. So a bin is
0.4% to 0.8% of its value wide, whatever the scale of the tensor, two histograms merge by adding
integers, and the result cannot depend on the order or the batches in which values came.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

BINS = 1 << 16
"""Number of bins: one for every pattern of the upper 16 bits."""

_FINITE = 0x7F80  # patterns below it are finite; from it on the exponent is 255
_SIGN = 0x8000
_CHUNK = 1 << 19  # bincount widens its input to 8 bytes a value, so it is fed in pieces
_UPPER_HALF = 1 if sys.byteorder == "little" else 0


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of a tensor's values, padding excluded.

    Attributes:
        counts: ``(65536,)`` int64, by upper half of the bit pattern. They add up to the number of
            values seen, NaN and Inf included.
        low, high: exact smallest and largest finite value; ``inf`` and ``-inf`` when there is none.
        inf: number of infinite values.
    """

    counts: NDArray[np.int64]
    low: float
    high: float
    inf: int = 0

    @property
    def nonfinite(self) -> int:
        """Number of values that are NaN or infinite."""
        return int(self.counts[_FINITE:_SIGN].sum() + self.counts[_SIGN + _FINITE :].sum())

    @property
    def nan(self) -> int:
        """Number of values that are NaN."""
        return self.nonfinite - self.inf

    @property
    def count(self) -> int:
        """Number of finite values."""
        return int(self.counts.sum()) - self.nonfinite

    @property
    def absmax(self) -> float:
        """Largest finite magnitude; 0 when there is no finite value."""
        return max(-self.low, self.high, 0.0)


def empty() -> Histogram:
    """The histogram of no values."""
    return Histogram(np.zeros(BINS, np.int64), float("inf"), float("-inf"))


def observe(values: NDArray[np.float32], extent: tuple[float, float] | None = None) -> Histogram:
    """Histogram of an array of any shape, float32.

    Args:
        values: the array.
        extent: its `extremes`, where they are known already.
    """
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    upper = flat.view(np.uint16)[_UPPER_HALF::2]
    counts = np.zeros(BINS, np.int64)
    for start in range(0, flat.size, _CHUNK):
        counts += np.bincount(upper[start : start + _CHUNK], minlength=BINS)
    infinite = 0
    if counts[_FINITE:_SIGN].any() or counts[_SIGN + _FINITE :].any():
        infinite = int(np.isinf(flat).sum())
        flat = flat[np.isfinite(flat)]
    return Histogram(counts, *(extremes(flat) if extent is None else extent), infinite)


def extremes(finite: NDArray[np.float32]) -> tuple[float, float]:
    """Smallest and largest of some finite values; ``(inf, -inf)`` of none."""
    # Adding zero turns -0.0, which compares equal to 0.0, into 0.0.
    low = float(finite.min(initial=np.float32(np.inf))) + 0.0
    high = float(finite.max(initial=np.float32(-np.inf))) + 0.0
    return low, high


def merge(a: Histogram, b: Histogram) -> Histogram:
    """Histogram of the values of both: exact, commutative and associative."""
    return Histogram(a.counts + b.counts, min(a.low, b.low), max(a.high, b.high), a.inf + b.inf)


@cache
def edges() -> NDArray[np.float64]:
    """Edges of the finite bins in ascending order of value, ``(65281,)`` float64.

    The two bins around zero share the edge 0; the outermost edges are -2^128 and 2^128.
    """
    patterns = np.arange(_FINITE, dtype=np.uint32) << 16
    upward = np.append(patterns.view(np.float32).astype(np.float64), 2.0**128)
    result = np.concatenate([-upward[:0:-1], upward])
    result.setflags(write=False)
    return result


def ascending_counts(hist: Histogram) -> NDArray[np.int64]:
    """Counts of the bins between `edges`, ``(65280,)`` int64."""
    # Negative patterns grow away from zero.
    negative = hist.counts[_SIGN : _SIGN + _FINITE][::-1]
    return np.concatenate([negative, hist.counts[:_FINITE]])
