"""Bounds that keep a given share of the values inside."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.bounds import Bounds
from quantflow.ranges.density import Density, density
from quantflow.ranges.grid import Histogram


def percentile(hist: Histogram, *, percentile: float, symmetric: bool) -> Bounds:
    """Percentiles of the values, within a bin (0.8%) of the exact ones.

    Args:
        hist: the histogram.
        percentile: 0-100, above 50. Asymmetric: each side on its own keeps this share of all values
            on the inner side of its bound. Symmetric: ``[-m, m]`` keeps this share inside.
        symmetric: whether the bounds are ``[-m, m]``.
    """
    if not hist.count:
        return Bounds(0.0, 0.0)
    values = density(hist)
    if symmetric:
        bound = float(_quantiles(_magnitudes(values), np.array([percentile / 100]))[0])
        return Bounds(-bound, bound)
    low, high = _quantiles(values, np.array([1 - percentile / 100, percentile / 100]))
    return Bounds(float(low), float(high))


def _magnitudes(d: Density) -> Density:
    """The density of the absolute values, bins sorted but possibly one on top of another."""
    left = np.minimum(np.abs(d.left), np.abs(d.right))
    right = np.maximum(np.abs(d.left), np.abs(d.right))
    order = np.lexsort((right, left))
    return Density(left[order], right[order], d.mass[order])


def _quantiles(d: Density, q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantiles, linear between order statistics (Hyndman and Fan 1996, type 7)."""
    rank = q * (d.total - 1)
    lower, upper = _order_statistic(d, np.floor(rank)), _order_statistic(d, np.ceil(rank))
    return lower + (rank - np.floor(rank)) * (upper - lower)


def _order_statistic(d: Density, rank: NDArray[np.float64]) -> NDArray[np.float64]:
    """The value at a 0-based rank, a bin's values taken as evenly spread over it."""
    after = np.cumsum(d.mass)
    index = np.minimum(np.searchsorted(after, rank, side="right"), len(after) - 1)
    position = (rank - (after[index] - d.mass[index]) + 0.5) / d.mass[index]
    value = d.left[index] + position * (d.right[index] - d.left[index])
    # The extremes are known exactly.
    value = np.where(rank <= 0, d.left[0], value)
    return np.where(rank >= after[-1] - 1, d.right.max(), value)
