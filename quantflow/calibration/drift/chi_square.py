"""The chi-square distance of two samples of categories."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def chi_square_distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """``sqrt(1/2 sum_c (p_c - q_c)^2 / (p_c + q_c))`` over the shares of the categories.

    For samples of equal size n it is ``sqrt(X^2 / (2n))``, with Pearson's (1900) ``X^2`` of the
    two-row table: Cramer's V.

    Args:
        a, b: ``(..., C)`` counts of the categories; each row holds at least one.

    Returns:
        ``(...)``, each 0 (same shares) to 1 (no category in common).
    """
    p = a / a.sum(axis=-1, keepdims=True)
    q = b / b.sum(axis=-1, keepdims=True)
    both = p + q
    terms = np.divide((p - q) ** 2, both, out=np.zeros_like(both), where=both > 0)
    return np.sqrt(terms.sum(axis=-1) / 2)
