"""The Kolmogorov-Smirnov distance: where two distribution functions lie furthest apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def ks_distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Largest difference of the distribution functions (Smirnov 1939) at the edges of bins.

    Args:
        a, b: ``(..., B)`` counts in the same bins, ascending; each histogram holds at least one.

    Returns:
        ``(...)``, each 0 (equal) to 1 (no overlap).
    """
    return np.abs(gaps(a, b)).max(axis=-1)


def gaps(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Distribution function of `a` less that of `b` at the end of every bin, ``(..., B)``."""
    shares = a / a.sum(axis=-1, keepdims=True) - b / b.sum(axis=-1, keepdims=True)
    return np.cumsum(shares, axis=-1)
