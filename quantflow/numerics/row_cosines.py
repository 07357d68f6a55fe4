"""Cosine of each of many short rows, all at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def row_cosines(
    a: NDArray[np.float64], b: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """What `Differences` says of each row.

    Args:
        a, b: ``(N, width)`` float64.

    Returns:
        ``(N,)`` float64, the cosines over what is finite in both: 1 of two zero rows, 0 of one, -1
        without finite elements. ``(N,)`` int64, the positions with a NaN, or with an Inf that the
        other one has not.
    """
    both = np.isfinite(a) & np.isfinite(b)
    apart = (~both & ~(a == b)).sum(axis=1)
    x, y = (_scaled(np.where(both, v, 0.0)) for v in (a, b))
    of_x, of_y = np.square(x).sum(axis=1), np.square(y).sum(axis=1)
    # The root of the product: of equal rows it is their square to the last bit.
    norms = np.sqrt(of_x * of_y)
    cosine = np.divide((x * y).sum(axis=1), norms, where=norms > 0, out=np.zeros(len(x)))
    cosine[(of_x == 0) & (of_y == 0)] = 1.0
    cosine[~both.any(axis=1)] = -1.0
    return np.clip(cosine, -1.0, 1.0), apart


def _scaled(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row divided by a power of two, so that its square is a normal number."""
    exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    return np.ldexp(rows, -exponents[:, None])
