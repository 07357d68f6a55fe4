"""The histogram read as a density: uniform inside each bin.

Everything that is computed from a histogram - shares, quantiles, expected errors - is an integral
over this density, taken in closed form, so that no figure depends on where bins happen to lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.grid import Histogram, ascending_counts, edges


@dataclass(frozen=True, slots=True)
class Density:
    """Non-empty bins in ascending order, cut to the observed extremes.

    Attributes:
        left, right: ``(P,)`` float64 edges, ``left <= right``; equal where all values are one.
        mass: ``(P,)`` float64 number of values.
    """

    left: NDArray[np.float64]
    right: NDArray[np.float64]
    mass: NDArray[np.float64]

    @property
    def total(self) -> float:
        """Number of values."""
        return float(self.mass.sum())


def density(hist: Histogram, *, zero: bool = True) -> Density:
    """The density of a histogram's finite values.

    Args:
        hist: the histogram.
        zero: whether to keep the two bins around zero (magnitudes below 2^-133). Zero has a level
            of its own under every range, so where only the shape matters they are left out.
    """
    counts = ascending_counts(hist)
    if not zero:
        middle = len(counts) // 2
        counts[middle - 1 : middle + 1] = 0
    bins = np.flatnonzero(counts)
    grid = edges()
    left = np.clip(grid[bins], hist.low, hist.high)
    right = np.clip(grid[bins + 1], hist.low, hist.high)
    return Density(left, right, counts[bins].astype(np.float64))


def mass_below(d: Density, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Number of values below each of some points, ``(M,)`` float64 to ``(M,)`` float64.

    Values that are all equal count as below a point only when they are less than it.
    """
    if not len(d.mass):
        return np.zeros_like(points)
    before = np.concatenate([[0.0], np.cumsum(d.mass)])
    index = np.searchsorted(d.left, points, side="left")  # bins that begin below the point
    last = np.maximum(index - 1, 0)
    width = d.right[last] - d.left[last]
    inside = np.minimum(points - d.left[last], width)
    share = np.divide(inside, width, out=np.ones_like(width), where=width > 0)
    return np.where(index > 0, before[last] + d.mass[last] * share, 0.0)


def mean_square(d: Density) -> float:
    """Expected square of a value; 0 of no values."""
    square = (d.left * d.left + d.left * d.right + d.right * d.right) / 3
    return float((d.mass * square).sum() / max(d.total, 1.0))
