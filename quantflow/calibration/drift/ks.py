"""The Kolmogorov-Smirnov distance: where two distribution functions lie furthest apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ks_distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest difference of the empirical distribution functions (Smirnov 1939), column by column.

    Args:
        a, b: ``(N, F)`` and ``(M, F)``, samples of F features; neither is empty.

    Returns:
        ``(F,)``, each 0 (equal) to 1 (no overlap).
    """
    pooled = np.concatenate([a, b])
    order = np.argsort(pooled, axis=0, kind="stable")
    ordered = np.take_along_axis(pooled, order, axis=0)
    steps = np.where(order < len(a), 1 / len(a), -1 / len(b))
    difference = np.abs(np.cumsum(steps, axis=0))
    # Inside a run of equal values the functions have not finished their step.
    difference[:-1][ordered[:-1] == ordered[1:]] = 0
    return difference.max(axis=0)
