"""The classifier two-sample test: can anything tell the calibration set from deployment?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

FOLDS = 5


@dataclass(frozen=True, slots=True)
class Separation:
    """How well a classifier separates two samples.

    Attributes:
        auc: probability that it scores a row of the first sample above one of the second, 0-1; 0.5
            when it cannot tell them apart.
        low, high: 95% interval of `auc`.
    """

    auc: float
    low: float
    high: float


def classifier_test(
    a: NDArray[np.float64], b: NDArray[np.float64], keys: Sequence[str], *, penalty: float = 1.0
) -> Separation:
    """Classifier two-sample test (Lopez-Paz and Oquab 2017) with logistic regression.

    Every row is scored by a model that has not seen its fold. Rows with the same key share a fold,
    so that a repeated sample is not recognised from its copies. Nothing is random.

    Args:
        a, b: ``(N, F)`` and ``(M, F)`` features.
        keys: content digests of the rows of `a`, then of `b`.
        penalty: see `fit_logistic`.
    """
    rows = standardize(np.concatenate([a, b]), b)
    first = np.arange(len(rows)) < len(a)
    folds = _folds(first, keys)
    scores = np.zeros(len(rows))
    for fold in range(FOLDS):
        test = folds == fold
        if not test.any() or len(set(first[~test])) < 2:
            continue
        weights, intercept = fit_logistic(rows[~test], first[~test], penalty=penalty)
        scores[test] = rows[test] @ weights + intercept
    return area_under_curve(scores[first], scores[~first])


def standardize(
    rows: NDArray[np.float64], reference: NDArray[np.float64], limit: float = 5.0
) -> NDArray[np.float64]:
    """Centre and scale columns by mean and standard deviation of `reference`.

    Values further out than `limit` standard deviations are drawn in to it; in a column that is
    constant in `reference`, every other value is.

    Args:
        rows: ``(N, F)``.
        reference: ``(M, F)``.
        limit: largest absolute value of the result.
    """
    centre, spread = reference.mean(axis=0), reference.std(axis=0)
    # A constant column's own rounding error is no spread.
    least = np.abs(centre) * 1e-12 + np.finfo(np.float64).tiny
    return np.clip((rows - centre) / np.maximum(spread, least), -limit, limit)


def fit_logistic(
    rows: NDArray[np.float64], positive: NDArray[np.bool_], *, penalty: float = 1.0
) -> tuple[NDArray[np.float64], float]:
    """Logistic regression with both classes given equal weight.

    Minimises ``sum_i c_i log(1 + exp(-y_i (w x_i + w0))) + penalty |w|^2 / 2``, where the ``c_i`` of
    each class add up to half of the number of rows.

    Args:
        rows: ``(N, F)``, standardized.
        positive: ``(N,)``, both values occur.
        penalty: weight of the squared coefficients; the intercept is free.

    Returns:
        The coefficients ``(F,)`` and the intercept.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    sign = np.where(positive, 1.0, -1.0)
    share = np.where(positive, 0.5 / positive.sum(), 0.5 / (~positive).sum()) * len(rows)

    def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights, intercept = point[:-1], point[-1]
        margin = sign * (rows @ weights + intercept)
        slope = -share * sign * expit(-margin)
        value = float(share @ np.logaddexp(0, -margin) + penalty * (weights @ weights) / 2)
        return value, np.append(rows.T @ slope + penalty * weights, slope.sum())

    found = minimize(loss, np.zeros(rows.shape[1] + 1), jac=True, method="L-BFGS-B")
    return found.x[:-1], float(found.x[-1])


def area_under_curve(a: NDArray[np.float64], b: NDArray[np.float64]) -> Separation:
    """Area under the ROC curve of scores, with DeLong's interval on the logit scale.

    The area is the mean over all pairs of 1 where `a` scores higher, 0.5 where they tie; its
    variance that of DeLong, DeLong and Clarke-Pearson (1988).

    Args:
        a, b: ``(N,)`` and ``(M,)`` scores.
    """
    pairs = np.sign(a[:, None] - b[None, :]) / 2 + 0.5
    auc = float(pairs.mean())
    of_a, of_b = pairs.mean(axis=1), pairs.mean(axis=0)
    # Half a pair on either side keeps perfect separation, whose variance is 0, on the scale.
    half = 0.5 / pairs.size
    inside = min(max(auc, half), 1 - half)
    variance = of_a.var() / max(len(a) - 1, 1) + of_b.var() / max(len(b) - 1, 1)
    margin = 1.96 * float(np.sqrt(variance)) / (inside * (1 - inside))
    centre = log(inside / (1 - inside))
    low, high = (1 / (1 + exp(-x)) for x in (centre - margin, centre + margin))
    return Separation(auc, low, high)


def _folds(first: NDArray[np.bool_], keys: Sequence[str]) -> NDArray[np.intp]:
    """Fold of every row: distinct keys dealt out in turn, those of each sample by themselves."""
    owner = {key: bool(mine) for key, mine in zip(keys, first, strict=True)}
    ranks = {key: rank for rank, key in enumerate(sorted(owner, key=lambda k: (owner[k], k)))}
    return np.array([ranks[key] % FOLDS for key in keys], np.intp)
