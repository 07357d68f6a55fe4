"""The search for two bounds when a cost can be had for many candidates at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.bounds import Bounds

Cost = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
"""Cost of ``(C,)`` lower and ``(C,)`` upper bounds, ``(C,)`` float64; inf where not allowed."""

# Costs that differ by less are rounding noise of their float64 sums.
_TIE_RELATIVE, _TIE_ABSOLUTE = 1e-9, 1e-13


def search(lows: NDArray[np.float64], highs: NDArray[np.float64], cost: Cost) -> Bounds:
    """The cheapest bounds, one side after the other.

    The side that reaches further is searched first, the other one held at its widest; then the
    other one, with the first held where it was found. So an outlier on the long side is gone before
    the short side is judged by the step size that is left. One-sided data have a single candidate
    on the empty side.

    Args:
        lows: candidates of the lower bound, ``(A,)`` float64, widest last.
        highs: candidates of the upper bound, ``(B,)`` float64, widest last.
        cost: see `Cost`.

    Returns:
        The bounds; of equally cheap ones the widest.
    """
    low, high = lows[-1], highs[-1]
    for upper_side in sorted((False, True), reverse=bool(high >= -low)):
        if upper_side:
            high = highs[cheapest(cost(np.full_like(highs, low), highs))]
        else:
            low = lows[cheapest(cost(lows, np.full_like(lows, high)))]
    return Bounds(float(low), float(high))


def search_symmetric(highs: NDArray[np.float64], cost: Cost) -> Bounds:
    """The cheapest bounds ``[-m, m]``; `highs` are candidates of m, ``(B,)``, widest last."""
    bound = float(highs[cheapest(cost(-highs, highs))])
    return Bounds(-bound, bound)


def cheapest(costs: NDArray[np.float64]) -> int:
    """Index of the least of ``(C,)`` costs, the last one of those that tie."""
    least = costs.min()
    return int(np.flatnonzero(costs <= least + _TIE_RELATIVE * abs(least) + _TIE_ABSOLUTE)[-1])
