"""What quantization costs, from the histogram: expected rounding and clipping errors.

All are integrals over the piecewise uniform density, in closed form. With the level l that x is
rounded and clipped to, and the step s, the integral of ``(x - l s)^2`` from 0 is
``l s^3 / 12 + (x - l s)^3 / 3``.
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
        lows, highs: ``(C,)`` values of the lowest and the highest level, multiples of `step`, zero
            between them.
        step: ``(C,)`` distance of the levels, positive.

    Returns:
        ``(C,)`` float64, in squared units of the tensor.
    """
    total, order = np.empty(len(lows)), np.argsort(step, kind="stable")
    edges, weight = _intervals(d)
    power = weight * np.diff(edges) * _mean_squares(edges)
    flat = d.left >= d.right
    points, masses = d.left[flat], d.mass[flat]
    start = 0
    while start < len(order):
        # What rounds to zero under all steps of a block needs no closer look.
        inner = _inner(edges, float(step[order[start]]) / 2)
        outer, rest = _without(edges, weight, inner)
        part = order[start : start + max(1, _IN_CACHE // max(len(outer), 1))]
        low, high, s = lows[part, None], highs[part, None], step[part, None]
        below = _integral(outer, low, high, s)
        error = np.subtract(below[:, 1:], below[:, :-1])
        total[part] = np.maximum(error, 0.0, out=error) @ rest + power[inner].sum()
        offset = points - np.clip(np.rint(points / s) * s, low, high)
        total[part] += (offset * offset) @ masses
        start += len(part)
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


def _inner(edges: Floats, half: float) -> slice:
    """The intervals between edges of at most a magnitude."""
    first, after = np.searchsorted(edges, -half), np.searchsorted(edges, half, side="right")
    return slice(int(first), max(int(first), int(after) - 1))


def _without(edges: Floats, weight: Floats, inner: slice) -> tuple[Floats, Floats]:
    """Edges and density with one empty interval in place of some."""
    if inner.start == inner.stop:
        return edges, weight
    outer = np.concatenate([edges[: inner.start + 1], edges[inner.stop :]])
    return outer, np.concatenate([weight[: inner.start], [0.0], weight[inner.stop :]])


def _mean_squares(edges: Floats) -> Floats:
    """Expected square of a value between each edge and the next."""
    left, right = edges[:-1], edges[1:]
    return (left * left + left * right + right * right) / 3


def _integral(x: Floats, low: Floats, high: Floats, step: Floats) -> Floats:
    """Antiderivative of the squared error at ``(P,)`` points for ``(C, 1)`` quantizers."""
    level = x * (1 / step)
    np.rint(level, out=level)
    np.maximum(level, np.rint(low / step), out=level)
    np.minimum(level, np.rint(high / step), out=level)
    offset = level * step
    np.subtract(x, offset, out=offset)
    # Products, since numpy's power of an array is twenty times slower.
    cube = offset * offset
    cube *= offset
    level *= step * step * step / 4
    level += cube
    level /= 3
    return level


def energy_beyond(d: Density, lows: Floats, highs: Floats, step: Floats) -> Floats:
    """Expected ``x^2 - bound^2`` over the values that are clipped, 0 for the others.

    A value is clipped when it lies more than half a step beyond the lowest or the highest level.
    Arguments and result are those of `squared_error`.
    """
    mirrored = Density(-d.right[::-1], -d.left[::-1], d.mass[::-1])
    lost = _energy_above(d, highs, highs + step / 2)
    lost += _energy_above(mirrored, -lows, -lows + step / 2)
    return lost / max(d.total, 1.0)


def _energy_above(d: Density, bounds: Floats, edges: Floats) -> Floats:
    """Sums of ``x^2 - bound^2`` over the values beyond an edge, ``(C,)``."""
    squares = (d.left * d.left + d.left * d.right + d.right * d.right) / 3
    mass, power = (np.append(np.cumsum(x[::-1])[::-1], 0.0) for x in (d.mass, d.mass * squares))
    over = np.searchsorted(d.right, edges, side="right")  # the first bin with something beyond
    whole = np.maximum(np.searchsorted(d.left, edges, side="left"), over)
    lost = power[whole] - bounds * bounds * mass[whole]
    # The difference of cubes as a product: powers are slow, and cancel where bins are narrow.
    cut = np.flatnonzero(over < whole)
    left, right = edges[cut], d.right[over[cut]]
    mean = (right * right + right * left + left * left) / 3 - bounds[cut] * bounds[cut]
    share = (right - left) / (right - d.left[over[cut]])
    lost[cut] += d.mass[over[cut]] * share * mean
    return np.maximum(lost, 0.0)
