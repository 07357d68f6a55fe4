"""Bounds of least Kullback-Leibler divergence.

For each candidate range, the distribution of the values (clipped ones moved to the outermost
non-empty bin inside) is compared with what the quantizer makes of it: the values inside collapse
into levels, and each level is expanded again over the non-empty bins that fell into it. The method
is that of Migacz, "8-bit inference with TensorRT" (GTC 2017), with levels where the quantizer has
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.bounds import Bounds
from quantflow.ranges.density import Density, density, mass_below
from quantflow.ranges.grid import Histogram
from quantflow.ranges.threshold_search import search, search_symmetric

LINEAR_BINS = 2048
"""Bins of equal width that the observed range is divided into."""

_IN_CACHE = 1 << 15
"""Numbers in an array of intermediate results that stays in a core's cache."""

_NO_MASS = float(np.finfo(np.float64).tiny)
"""Stands for the share of an empty level, which is multiplied by zero."""

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class LinearHistogram:
    """A histogram over B bins of equal width.

    Attributes:
        edges: ``(B + 1,)`` float64.
        below: ``(B + 1,)`` float64, share of the mass below each edge, from 0 to 1.
    """

    edges: Floats
    below: Floats

    @cached_property
    def mass(self) -> Floats:
        """``(B,)`` shares."""
        return np.diff(self.below)

    @cached_property
    def filled(self) -> Floats:
        """``(B + 1,)`` numbers of bins below each edge that are not empty, float64 to divide by."""
        return np.concatenate([[0.0], np.cumsum(self.mass > 0)])

    @cached_property
    def terms(self) -> Floats:
        """``(B + 1,)`` sums of ``p log p`` below each edge."""
        return np.concatenate([[0.0], np.cumsum(_p_log_p(self.mass))])

    @cached_property
    def next_filled(self) -> Indices:
        """``(B,)`` the bin itself or the first one above it that is not empty."""
        numbers = np.where(self.mass > 0, np.arange(len(self.mass)), len(self.mass) - 1)
        return np.minimum.accumulate(numbers[::-1])[::-1]

    @cached_property
    def last_filled(self) -> Indices:
        """``(B,)`` the bin itself or the first one below it that is not empty."""
        return np.maximum.accumulate(np.where(self.mass > 0, np.arange(len(self.mass)), 0))


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
    if symmetric and signed:
        return search_symmetric(highs, cost)
    found = search(lows, highs, cost)
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
    first, last = _bin_numbers(linear, lows), _bin_numbers(linear, highs)
    inside = linear.below[last] - linear.below[first]
    allowed = (last - first >= levels) & (inside > 0)
    cross = np.empty(len(lows))
    block = _IN_CACHE // levels
    for start in range(0, len(lows), block):
        part = slice(start, start + block)
        bounds = _level_edges(linear, lows[part], highs[part], levels)
        cross[part] = _cross_entropy(linear, bounds)
    # The image is that of the mass inside, spread over all of it.
    divergence = _kept_entropy(linear, first, last) + _log(inside) - cross
    return np.where(allowed, divergence, np.inf)


def _cross_entropy(linear: LinearHistogram, bounds: Indices) -> Floats:
    """``(C,)`` sums of ``p log q``, q being what levels with edges ``(C, levels + 1)`` make of p.

    The mass inside is not yet scaled up to 1 in q.
    """
    level_mass = np.diff(linear.below.take(bounds), axis=1)  # (C, levels)
    level_filled = np.diff(linear.filled.take(bounds), axis=1)
    share = level_mass / np.maximum(level_filled, 1)  # what each non-empty bin of a level gets
    log_share = np.log(np.maximum(share, _NO_MASS, out=share))
    under, over = linear.below[bounds[:, 0]], 1 - linear.below[bounds[:, -1]]
    cross = np.einsum("cl,cl->c", level_mass, log_share)
    cross += under * _at_end(log_share, level_filled)
    cross += over * _at_end(log_share[:, ::-1], level_filled[:, ::-1])
    return cross


def _bin_numbers(linear: LinearHistogram, bounds: Floats) -> Indices:
    """The bins that begin at some bounds."""
    return np.rint((bounds - linear.edges[0]) / _width(linear)).astype(np.int64)


def _width(linear: LinearHistogram) -> float:
    return float(linear.edges[-1] - linear.edges[0]) / (len(linear.edges) - 1)


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
    step = (highs - lows) / (levels - 1)
    lowest = np.rint(lows / step)  # number of the first level; level 0 stands for zero
    # Where a level ends, in bins, counted from the middle of the first one.
    spacing = step / _width(linear)
    start = (lowest - 0.5) * spacing - (linear.edges[0] / _width(linear) + 0.5)
    between = np.multiply.outer(spacing, np.arange(1.0, levels))
    between += start[:, None]
    edges = np.empty((len(lows), levels + 1), np.int64)
    edges[:, 0], edges[:, -1] = _bin_numbers(linear, lows), _bin_numbers(linear, highs)
    # They lie between low and high, as the outermost levels are half a step beyond at most.
    edges[:, 1:-1] = np.ceil(between, out=between)
    return edges


def _kept_entropy(linear: LinearHistogram, first: Indices, last: Indices) -> Floats:
    """``(C,)`` sums of ``p log p`` inside, clipped mass on the outermost non-empty bins."""
    mass, terms = linear.mass, linear.terms
    bottom = linear.next_filled[np.minimum(first, len(mass) - 1)]
    top = linear.last_filled[np.maximum(last - 1, 0)]
    under, over = linear.below[first], 1 - linear.below[last]
    low, high = mass[bottom], mass[top]
    apart = _p_log_p(low + under) - _p_log_p(low) + _p_log_p(high + over) - _p_log_p(high)
    single = _p_log_p(low + under + over) - _p_log_p(low)
    return terms[last] - terms[first] + np.where(bottom == top, single, apart)


def _at_end(values: Floats, filled: Floats) -> Floats:
    """The value of each row's first level that has a non-empty bin, ``(C, levels)`` to ``(C,)``."""
    if filled[:, 0].all():
        return values[:, 0]
    return values[np.arange(len(values)), np.argmax(filled > 0, axis=1)]


def _log(x: Floats) -> Floats:
    """Logarithm, and 0 where there is no mass to take it of."""
    return np.log(np.where(x > 0, x, 1.0))


def _p_log_p(p: Floats) -> Floats:
    return p * _log(p)
