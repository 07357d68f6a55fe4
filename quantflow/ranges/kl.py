"""Bounds of least Kullback-Leibler divergence.

For each candidate range, the distribution of the values (clipped ones moved to the outermost
non-empty bin inside) is compared with what the quantizer makes of it: the values inside collapse
into levels, and each level is expanded again over the non-empty bins that fell into it. The method
is that of Migacz, "8-bit inference with TensorRT" (GTC 2017), with levels where the quantizer has
them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.bounds import Bounds
from quantflow.ranges.density import Density, density, mass_below
from quantflow.ranges.grid import Histogram
from quantflow.ranges.threshold_search import in_blocks, search, search_symmetric

LINEAR_BINS = 2048
"""Bins of equal width that the observed range is divided into."""

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LinearHistogram:
    """A histogram over B bins of equal width.

    Attributes:
        edges: ``(B + 1,)`` float64.
        below: ``(B + 1,)`` float64, share of the mass below each edge, from 0 to 1.
    """

    edges: Floats
    below: Floats


def kl(hist: Histogram, *, symmetric: bool) -> Bounds:
    """Bounds of least divergence.

    Values of magnitude below 2^-133 take no part: zero is exact under every range, so a spike of it
    says nothing about where to clip. Asymmetric ranges have 256 levels; symmetric ones 255 when the
    tensor is signed and 128, all levels of its side, when it is not. A candidate has at least as
    many bins as levels. The sides of a signed tensor are searched in turn (see `search`).
    """
    shape = density(hist, zero=False)
    if not len(shape.mass):
        return Bounds(0.0, 0.0)
    low, high = min(hist.low, 0.0), max(hist.high, 0.0)
    signed = low < 0 < high
    if symmetric and signed:
        low, high = -hist.absmax, hist.absmax
    linear = _resample(shape, low, high)
    levels = 256 if not symmetric else 255 if signed else 128

    def cost(lows: Floats, highs: Floats) -> Floats:
        return divergences(linear, lows, highs, levels)

    lows = np.append(linear.edges[(low < linear.edges) & (linear.edges < 0)][::-1], low)
    highs = np.append(linear.edges[(linear.edges > 0) & (linear.edges < high)], high)
    blocks = in_blocks(cost, levels)
    if symmetric and signed:
        return search_symmetric(highs, blocks)
    found = search(lows, highs, blocks)
    bound = max(-found.low, found.high)
    return Bounds(-bound, bound) if symmetric else found


def divergences(linear: LinearHistogram, lows: Floats, highs: Floats, levels: int) -> Floats:
    """Divergence, in nats, of the distribution from its quantized and expanded image.

    Args:
        linear: the distribution.
        lows, highs: ``(C,)`` candidate ranges, on bin edges.
        levels: number of levels that a range is divided into.

    Returns:
        ``(C,)`` float64; inf where fewer bins than levels lie inside, or no mass does.
    """
    bounds = _level_edges(linear, lows, highs, levels)  # (C, levels + 1)
    first, last = bounds[:, 0], bounds[:, -1]
    mass = np.diff(linear.below)  # (B,)
    filled = np.concatenate([[0], np.cumsum(mass > 0)])  # (B + 1,)
    inside = linear.below[last] - linear.below[first]
    allowed = (last - first >= levels) & (inside > 0)
    level_mass = np.diff(linear.below[bounds], axis=1)  # (C, levels)
    level_filled = np.diff(filled[bounds], axis=1)
    share = level_mass / np.maximum(level_filled, 1)  # what each non-empty bin of a level gets
    log_image = _log(share) - _log(inside)[:, None]
    kept = _kept_entropy(linear, mass, first, last)
    cross = (level_mass * log_image).sum(axis=1)
    cross += linear.below[first] * _at_end(log_image, level_filled)
    cross += (1 - linear.below[last]) * _at_end(log_image[:, ::-1], level_filled[:, ::-1])
    return np.where(allowed, kept - cross, np.inf)


def _resample(shape: Density, low: float, high: float) -> LinearHistogram:
    """Spread each bin's mass over the linear bins that it covers."""
    edges = low + (high - low) * (np.arange(LINEAR_BINS + 1) / LINEAR_BINS)
    below = mass_below(shape, edges) / shape.total
    below[0], below[-1] = 0.0, 1.0
    return LinearHistogram(edges, below)


def _level_edges(linear: LinearHistogram, lows: Floats, highs: Floats, levels: int) -> Indices:
    """The first bin of each level and the end of the last one, ``(C, levels + 1)``.

    A bin belongs to the level that its centre is rounded to.
    """
    width = (linear.edges[-1] - linear.edges[0]) / (len(linear.edges) - 1)
    first = np.rint((lows - linear.edges[0]) / width).astype(np.int64)[:, None]
    last = np.rint((highs - linear.edges[0]) / width).astype(np.int64)[:, None]
    step = (highs - lows) / (levels - 1)
    lowest = np.rint(lows / step)  # number of the first level; level 0 stands for zero
    between = (lowest[:, None] + np.arange(1, levels) - 0.5) * step[:, None]
    bins = np.ceil((between - linear.edges[0]) / width - 0.5).astype(np.int64)
    return np.concatenate([first, np.clip(bins, first, last), last], axis=1)


def _kept_entropy(linear: LinearHistogram, mass: Floats, first: Indices, last: Indices) -> Floats:
    """``(C,)`` sums of ``p log p`` inside, clipped mass on the outermost non-empty bins."""
    numbers = np.arange(len(mass))
    next_filled = np.minimum.accumulate(np.where(mass > 0, numbers, len(mass) - 1)[::-1])[::-1]
    last_filled = np.maximum.accumulate(np.where(mass > 0, numbers, 0))
    bottom = next_filled[np.minimum(first, len(mass) - 1)]
    top = last_filled[np.maximum(last - 1, 0)]
    under, over = linear.below[first], 1 - linear.below[last]
    terms = np.concatenate([[0.0], np.cumsum(_p_log_p(mass))])
    low, high = mass[bottom], mass[top]
    apart = _p_log_p(low + under) - _p_log_p(low) + _p_log_p(high + over) - _p_log_p(high)
    single = _p_log_p(low + under + over) - _p_log_p(low)
    return terms[last] - terms[first] + np.where(bottom == top, single, apart)


def _at_end(values: Floats, filled: Indices) -> Floats:
    """The value of each row's first level that has a non-empty bin, ``(C, levels)`` to ``(C,)``."""
    rows = np.arange(len(values))
    return values[rows, np.argmax(filled > 0, axis=1)]


def _log(x: Floats) -> Floats:
    """Logarithm, and 0 where there is no mass to take it of."""
    return np.log(np.where(x > 0, x, 1.0))


def _p_log_p(p: Floats) -> Floats:
    return p * _log(p)
