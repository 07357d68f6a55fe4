"""Bootstrap of many quantities that were measured on the same units."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def resampled_means(values: Matrix, *, seed: int, resamples: int = 1000) -> Matrix:
    """Means of every row in each bootstrap resample of the columns (Efron 1979).

    All rows see the same resamples, so that differences of rows are those of pairs.

    Args:
        values: ``(G, S)`` float64; NaN where a row was not measured on a unit.
        seed: of the resampling.
        resamples: number of resamples R.

    Returns:
        ``(R, G)`` float64: the mean of what was measured of a row, NaN where a resample has none.
    """
    rng = np.random.default_rng(seed)
    count = values.shape[1]
    times = rng.multinomial(count, np.full(count, 1 / count), size=resamples).astype(np.float64)
    measured = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return (times @ np.where(measured, values, 0.0).T) / (times @ measured.T)


def rank_rows(values: Matrix) -> NDArray[np.int64]:
    """Place of every column in its row, 0 for the largest; equal ones in their order.

    Args:
        values: ``(R, G)`` float64 without NaN.
    """
    return np.argsort(np.argsort(-values, axis=1, kind="stable"), axis=1, kind="stable")


def spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> Matrix:
    """Rank correlation along the last axis, ties by their order (Spearman 1904).

    Args:
        a, b: ``(R, G)``, or ``(G,)`` for one side.

    Returns:
        ``(R,)`` float64, -1 to 1; NaN for fewer than two columns, or a side that is constant.
    """
    flat = [np.ptp(np.atleast_2d(side), axis=1) == 0 for side in (a, b)]
    x, y = (rank_rows(np.atleast_2d(side)).astype(np.float64) for side in (a, b))
    x, y = (side - side.mean(axis=1, keepdims=True) for side in (x, y))
    with np.errstate(invalid="ignore"):
        norm = np.sqrt(np.square(x).sum(axis=1) * np.square(y).sum(axis=1))
        return np.where(flat[0] | flat[1], np.nan, (x * y).sum(axis=1) / norm)
