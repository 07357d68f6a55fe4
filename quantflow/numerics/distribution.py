"""Rows that are probabilities, as a softmax gives them, and how far apart two of them are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.error_metrics import in_parts

SUM_TOLERANCE = 5e-3
"""How far from 1 the sum of probabilities may be: each of them rounded to fp16 is off by up to
2^-11 of itself, and small ones by 2^-25."""

FLOOR = 2.0**-24
"""Smaller probabilities count as this: the least number above zero that fp16 has. Without it, one
probability that underflows would make the divergence infinite."""

_ROWS = 2**16
"""Rows that are compared at once."""


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
    p, q = (x.reshape(-1, x.shape[-1]) for x in (reference, other))
    total = 0.0
    for start in range(0, len(p), _ROWS):
        part = slice(start, start + _ROWS)
        total += _divergence(p[part], q[part])
    return max(total, 0.0), len(p)


def _divergence(p: NDArray[Any], q: NDArray[Any]) -> float:
    """Of some rows, some columns at a time: first the sums, to which all are scaled."""
    of_p, of_q = np.zeros((2, len(p), 1))
    for a, b in in_parts(p, q):
        if not np.isfinite(b).all():
            return float("inf")
        of_p += np.maximum(a, FLOOR).sum(axis=1, keepdims=True)
        of_q += np.maximum(b, FLOOR).sum(axis=1, keepdims=True)
    total = 0.0
    for a, b in in_parts(p, q):
        x, y = np.maximum(a, FLOOR) / of_p, np.maximum(b, FLOOR) / of_q
        total += float((x * np.log(x / y)).sum())
    return total
