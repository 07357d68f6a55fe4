"""What quantization costs, from the histogram: expected rounding and clipping errors.

All are integrals over the piecewise uniform density, in closed form: with ``u = x / s``, the
integral of ``(u - rint(u))^2`` from 0 is ``rint(u) / 12 + (u - rint(u))^3 / 3``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.density import Density

Floats = NDArray[np.float64]


def squared_error(d: Density, lows: Floats, highs: Floats, step: Floats) -> Floats:
    """Expected squared error of quantizing to the multiples of a step between two of them.

    Args:
        d: the values, P bins.
        lows, highs: ``(C,)`` values of the lowest and the highest level, multiples of `step`.
        step: ``(C,)`` distance of the levels, positive.

    Returns:
        ``(C,)`` float64, in squared units of the tensor.
    """
    low, high, s = lows[:, None], highs[:, None], step[:, None]
    width = d.right - d.left  # (P,)
    flat = width <= 0
    # Most bins touch the next one, and an edge that two of them share is computed once.
    ends = np.append(d.right[:-1] != d.left[1:], True)[: len(width)]
    right = np.arange(1, len(width) + 1)
    right[ends] = len(width) + np.arange(ends.sum())
    below = _integral(np.concatenate([d.left, d.right[ends]]), low, high, s)
    error = (below[:, right] - below[:, : len(width)]) / np.where(flat, 1.0, width)  # (C, P)
    if flat.any():
        points = d.left[flat]
        error[:, flat] = (points - np.clip(np.rint(points / s) * s, low, high)) ** 2
    return np.maximum(error, 0.0) @ d.mass / max(d.total, 1.0)


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
    above = _energy_above(d, high, high + step / 2)
    mirrored = Density(-d.right, -d.left, d.mass)
    return above + _energy_above(mirrored, -low, -low + step / 2)


def _energy_above(d: Density, bound: float, edge: float) -> float:
    width = d.right - d.left
    spread = width > 0
    left, right = np.maximum(d.left, edge), np.maximum(d.right, edge)
    # The difference of cubes as a product: powers are slow, and cancel where bins are narrow.
    squares = right * right + right * left + left * left
    integral = (right - left) * (squares / 3 - bound * bound)
    at_point = np.where(d.left > edge, d.left * d.left - bound * bound, 0.0)
    lost = np.where(spread, integral / np.where(spread, width, 1.0), at_point)
    return float((lost * d.mass).sum() / max(d.total, 1.0))
