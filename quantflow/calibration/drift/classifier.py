"""The classifier two-sample test: can anything tell the calibration set from deployment?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.drift.logistic import fit_logistic, standardize

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
    a: NDArray[np.float64], b: NDArray[np.float64], keys: Sequence[str], *, penalty: float = 10.0
) -> Separation:
    """Classifier two-sample test (Lopez-Paz and Oquab 2017) with logistic regression.

    Every row is scored by a model that has not seen its fold. Rows with the same key share a fold,
    so that a repeated sample is not recognised from its copies. Nothing is random.

    Args:
        a, b: ``(N, F)`` and ``(M, F)`` features.
        keys: content digests of the rows of `a`, then of `b`.
        penalty: see `fit_logistic`.
    """
    rows = standardize(np.concatenate([a, b]), b.mean(axis=0), b.std(axis=0))
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


def area_under_curve(a: NDArray[np.float64], b: NDArray[np.float64]) -> Separation:
    """Area under the ROC curve of scores, with DeLong's interval on the logit scale.

    The area is the mean over all pairs of 1 where `a` scores higher, 0.5 where they tie; its
    variance that of DeLong, DeLong and Clarke-Pearson (1988). Where no pair is out of order that
    variance is 0, and the one of a share of the smaller sample stands in for it.

    Args:
        a, b: ``(N,)`` and ``(M,)`` scores.
    """
    pairs = np.sign(a[:, None] - b[None, :]) / 2 + 0.5
    auc = float(pairs.mean())
    of_a, of_b = pairs.mean(axis=1), pairs.mean(axis=0)
    variance = float(of_a.var() / max(len(a) - 1, 1) + of_b.var() / max(len(b) - 1, 1))
    smaller = min(len(a), len(b))
    inside = min(max(auc, 0.5 / smaller), 1 - 0.5 / smaller)
    if inside != auc:
        variance = max(variance, inside * (1 - inside) / smaller)
    margin = 1.96 * variance**0.5 / (inside * (1 - inside))
    centre = log(inside / (1 - inside))
    low, high = (1 / (1 + exp(-x)) for x in (centre - margin, centre + margin))
    return Separation(auc, min(low, auc), max(high, auc))


def _folds(first: NDArray[np.bool_], keys: Sequence[str]) -> NDArray[np.intp]:
    """Fold of every row: distinct keys dealt out in turn, those of each sample by themselves."""
    owner = {key: bool(mine) for key, mine in zip(keys, first, strict=True)}
    ranks = {key: rank for rank, key in enumerate(sorted(owner, key=lambda k: (owner[k], k)))}
    return np.array([ranks[key] % FOLDS for key in keys], np.intp)
