"""The Jensen-Shannon distance of two histograms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def jensen_shannon(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Square root of the Jensen-Shannon divergence in bits, which is a metric.

    ``sqrt((KL(p | m) + KL(q | m)) / 2)`` with ``m = (p + q) / 2`` (Lin 1991; Endres and
    Schindelin 2003).

    Args:
        a, b: ``(..., B)`` counts that are not negative; each histogram holds at least one.

    Returns:
        ``(...)``, each 0 (same shares) to 1 (nothing in common).
    """
    p = a / a.sum(axis=-1, keepdims=True)
    q = b / b.sum(axis=-1, keepdims=True)
    middle = (p + q) / 2
    divergence = (_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2
    return np.sqrt(np.clip(divergence, 0, 1))


def _relative_entropy(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """``sum p log2(p / q)``; a bin that `p` leaves empty adds nothing."""
    ratio = np.divide(p, q, out=np.ones_like(q), where=p > 0)
    return (p * np.log2(ratio)).sum(axis=-1)
