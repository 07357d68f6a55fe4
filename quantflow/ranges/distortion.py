"""What quantization costs, from the histogram: expected rounding and clipping errors.

All are integrals over the piecewise uniform density, in closed form: with ``u = x / s``, the
integral of ``(u - rint(u))^2`` from 0 is ``rint(u) / 12 + (u - rint(u))^3 / 3``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.density import Density

Floats = NDArray[np.float64]

_IN_CACHE = 1 << 14
"""Numbers in an array of intermediate results that stays in a core's cache."""


def squared_error(d: Density, lows: Floats, highs: Floats, step: Floats) -> Floats:
    """Expected squared error of quantizing to the multiples of a step between two of them.

    Args:
        d: the values, P bins.
        lows, highs: ``(C,)`` values of the lowest and the highest level, multiples of `step`.
        step: ``(C,)`` distance of the levels, positive.

    Returns:
        ``(C,)`` float64, in squared units of the tensor.
    """
    edges, weight = _intervals(d)
    flat = d.left >= d.right
    points, masses = d.left[flat], d.mass[flat]
    total = np.empty(len(lows))
    block = max(1, _IN_CACHE // max(len(edges), 1))
    for start in range(0, len(lows), block):
        part = slice(start, start + block)
        low, high, s = lows[part, None], highs[part, None], step[part, None]
        below = _integral(edges, low, high, s)
        error = np.subtract(below[:, 1:], below[:, :-1])
        total[part] = np.maximum(error, 0.0, out=error) @ weight
        offset = points - np.clip(np.rint(points / s) * s, low, high)
        total[part] += (offset * offset) @ masses
    return total / max(d.total, 1.0)


def _intervals(d: Density) -> tuple[Floats, Floats]:
    """Edges of bins and of the gaps between them, and the density inside, 0 in gaps.

    Most bins touch the next one, and an edge that two of them share occurs once.
    """
    gap = np.append(d.right[:-1] != d.left[1:], True)[: len(d.mass)]
    places = np.arange(len(d.mass)) + np.cumsum(gap) - gap  # of the left edges
    edges = np.empty(len(d.mass) + int(gap.sum()))
    edges[places] = d.left
    edges[places[gap] + 1] = d.right[gap]
    weight = np.zeros(max(len(edges) - 1, 0))
    width = d.right - d.left
    spread = width > 0
    weight[places[spread]] = d.mass[spread] / width[spread]
    return edges, weight


def _integral(x: Floats, low: Floats, high: Floats, step: Floats) -> Floats:
    """Antiderivative of the squared error at ``(P,)`` points for ``(C, 1)`` quantizers."""
    inside = np.clip(x, low, high)
    offset = inside / step
    level = np.rint(offset)
    offset -= level
    beyond = np.subtract(x, inside, out=inside)
    # Products, since numpy's power of an array is twenty times slower.
    level /= 12
    level += offset * offset * offset / 3
    level *= step * step * step
    level += beyond * beyond * beyond / 3
    return level


def energy_beyond(d: Density, low: float, high: float, step: float) -> float:
    """Expected ``x^2 - bound^2`` over the values that are clipped, 0 for the others.

    A value is clipped when it lies more than half a step beyond the lowest or the highest level.
    """
    over = np.searchsorted(d.right, high + step / 2, side="right")
    under = np.searchsorted(d.left, low - step / 2, side="left")
    above = Density(d.left[over:], d.right[over:], d.mass[over:])
    below = Density(-d.right[:under], -d.left[:under], d.mass[:under])
    lost = _energy_above(above, high, high + step / 2)
    lost += _energy_above(below, -low, -low + step / 2)
    return lost / max(d.total, 1.0)


def _energy_above(d: Density, bound: float, edge: float) -> float:
    """Sum of ``x^2 - bound^2`` over the values beyond an edge."""
    width = d.right - d.left
    spread = width > 0
    left, right = np.maximum(d.left, edge), np.maximum(d.right, edge)
    # The difference of cubes as a product: powers are slow, and cancel where bins are narrow.
    squares = right * right + right * left + left * left
    integral = (right - left) * (squares / 3 - bound * bound)
    at_point = np.where(d.left > edge, d.left * d.left - bound * bound, 0.0)
    lost = np.where(spread, integral / np.where(spread, width, 1.0), at_point)
    return float((lost * d.mass).sum())
