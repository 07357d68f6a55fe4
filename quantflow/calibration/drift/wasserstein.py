"""The Wasserstein distance of two samples, in units of their common spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def wasserstein_distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalised Wasserstein-1 distance, column by column.

    ``W1 / s`` with ``W1`` the area between the distribution functions (Vallender 1974) and ``s``
    the standard deviation of the mixture of both samples in equal parts. So it has no unit, and a
    single extreme value among N cannot make it larger than ``sqrt(2 / N)``.

    Args:
        a, b: ``(N, F)`` and ``(M, F)``, samples of F features; neither is empty.

    Returns:
        ``(F,)``, each 0 (equal) to 2 (two different constants).
    """
    pooled = np.concatenate([a, b])
    order = np.argsort(pooled, axis=0, kind="stable")
    ordered = np.take_along_axis(pooled, order, axis=0)
    steps = np.where(order < len(a), 1 / len(a), -1 / len(b))
    difference = np.abs(np.cumsum(steps, axis=0))[:-1]
    area = (difference * np.diff(ordered, axis=0)).sum(axis=0)
    gap = a.mean(axis=0) - b.mean(axis=0)
    spread = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 2 + gap**2 / 4)
    return np.divide(area, spread, out=np.zeros_like(area), where=spread > 0)
