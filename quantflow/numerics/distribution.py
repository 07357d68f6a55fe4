"""Rows that are probabilities, as a softmax gives them, and how far apart two of them are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SUM_TOLERANCE = 5e-3
"""How far from 1 the sum of probabilities may be: each of them rounded to fp16 is off by up to
2^-11 of itself, and small ones by 2^-25."""

FLOOR = 2.0**-24
"""Smaller probabilities count as this: the least number above zero that fp16 has. Without it, one
probability that underflows would make the divergence infinite."""


def is_distribution(rows: NDArray[Any]) -> bool:
    """Whether all rows along the last axis, of two or more, lie in [0, 1] and add up to 1."""
    if rows.ndim < 2 or rows.shape[-1] < 2 or not rows.size:
        return False
    if not (rows.min() >= 0.0 and rows.max() <= 1.0 + SUM_TOLERANCE):  # false for NaN
        return False
    sums = rows.sum(axis=-1, dtype=np.float64)
    return bool((np.abs(sums - 1.0) <= SUM_TOLERANCE).all())


def divergence(reference: NDArray[Any], other: NDArray[Any]) -> tuple[float, int]:
    """``KL(p || q)`` in nats, summed over rows, and the number of rows.

    Both are raised to `FLOOR` and scaled to a sum of 1 first, so that the result is 0 or more.

    Args:
        reference, other: ``(..., K)`` probabilities. A value of `other` that is not finite makes
            the sum infinite.
    """
    p, q = (x.reshape(-1, x.shape[-1]).astype(np.float64) for x in (reference, other))
    if not np.isfinite(q).all():
        return float("inf"), len(p)
    p, q = (_scaled(x) for x in (p, q))
    return float(max((p * np.log(p / q)).sum(), 0.0)), len(p)


def _scaled(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = np.maximum(rows, FLOOR)
    return rows / rows.sum(axis=-1, keepdims=True)
