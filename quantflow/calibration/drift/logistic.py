# pyright: reportUnknownMemberType=false
"""Logistic regression of two samples of unequal size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray


def standardize(
    rows: NDArray[np.float64],
    centre: NDArray[np.float64],
    spread: NDArray[np.float64],
    limit: float = 5.0,
) -> NDArray[np.float64]:
    """Centre and scale columns by the mean and the standard deviation of some reference.

    Values further out than `limit` standard deviations are drawn in to it; in a column without any
    spread, every other value is.

    Args:
        rows: ``(N, F)``.
        centre, spread: ``(F,)``.
        limit: largest absolute value of the result.
    """
    # The rounding error of a constant column is no spread.
    least = np.abs(centre) * 1e-12 + np.finfo(np.float64).tiny
    with np.errstate(over="ignore"):  # what is infinitely far out is drawn in, too
        return np.clip((rows - centre) / np.maximum(spread, least), -limit, limit)


def fit_logistic(
    rows: NDArray[np.float64], positive: NDArray[np.bool_], *, penalty: float = 10.0
) -> tuple[NDArray[np.float64], float]:
    """Logistic regression with both classes given equal weight.

    Minimises ``sum_i c_i log(1 + exp(-y_i (w x_i + w0))) + penalty |w|^2 / 2``, where the ``c_i``
    of each class add up to half of the number of rows.

    Args:
        rows: ``(N, F)``, standardized.
        positive: ``(N,)``, both values occur.
        penalty: weight of the squared coefficients; the intercept is free.

    Returns:
        The coefficients ``(F,)`` and the intercept.
    """
    from scipy import optimize

    sign = np.where(positive, 1.0, -1.0)
    half = len(rows) / 2
    ones = np.count_nonzero(positive)
    weight: NDArray[np.float64] = np.where(positive, half / ones, half / (len(rows) - ones))

    def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = sign * (rows @ point[:-1] + point[-1])
        slope = -weight * sign * np.exp(-np.logaddexp(0, margin))
        value = float(weight @ np.logaddexp(0, -margin) + penalty * point[:-1] @ point[:-1] / 2)
        return value, np.append(rows.T @ slope + penalty * point[:-1], slope.sum())

    minimize = cast("Callable[..., Any]", optimize.minimize)
    start = np.zeros(rows.shape[1] + 1)
    point: NDArray[np.float64] = minimize(loss, start, jac=True, method="L-BFGS-B").x
    return point[:-1], float(point[-1])
