"""Re-selection: from a pool of candidates, the samples that together look like deployment.

First a classifier of pool against deployment drops candidates that look like nothing in deployment
(its odds are the density ratio). Then kernel herding picks from the others, one after the other,
what brings the mean of the selection in feature space closest to that of deployment. Deployment's
outermost samples get their share of the selection to themselves, since they decide the ranges and a
kernel mean hardly feels them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.drift.logistic import fit_logistic, standardize
from quantflow.calibration.features.table import FeatureTable

TAIL_FRACTION = 0.1
"""Share of deployment that is its tail: the samples furthest from its mean."""

_UNLIKE_QUANTILE = 0.01
"""Candidates that score below this quantile of deployment's own scores are dropped."""

_Rows = NDArray[np.float64]
_Index = NDArray[np.intp]


def select_matching(pool: FeatureTable, deployment: FeatureTable, count: int) -> list[int]:
    """Choose candidates that match deployment by their scalar features.

    Nothing is random, and the choice does not depend on the order of the pool. Repeated contents
    are chosen only when there are fewer than `count` different ones, and candidates that look like
    nothing in deployment only when there are fewer than `count` others.

    Args:
        pool: at least `count` candidates.
        deployment: what they shall look like, at least two samples.
        count: number of samples wanted.

    Returns:
        Positions in the pool, in the order of choice.
    """
    order = _distinct_first(pool)
    distinct = max(len(set(pool.digests)), count)
    rows = standardize(pool.values[order[:distinct]], deployment.values)
    target = standardize(deployment.values, deployment.values)
    kept = _plausible(rows, target, count)
    width = _bandwidth(target)
    chosen = np.zeros(0, np.intp)
    for candidates, goal, share in _strata(rows, target, kept, count):
        chosen = np.append(chosen, candidates[herd(rows[candidates], goal, share, width)])
    rest = np.setdiff1d(kept, chosen)
    more = herd(rows[rest], target, count - len(chosen), width)
    return [int(i) for i in order[np.append(chosen, rest[more])]]


def herd(rows: _Rows, target: _Rows, count: int, width: float) -> _Index:
    """Kernel herding (Chen, Welling and Smola 2010) without replacement.

    Each step takes the row with the largest ``mean_j k(x, target_j) - sum_s k(x, s) / (t + 1)``
    over the t rows s taken so far, ``k`` a Gaussian kernel; of equal rows the first.

    Args:
        rows: ``(N, F)`` to take from.
        target: ``(M, F)`` to match, M at least 1 if anything is taken.
        count: how many to take, or all when there are fewer.
        width: standard deviation of the kernel.

    Returns:
        Positions in `rows`, in the order of choice.
    """
    count = min(count, len(rows))
    if count <= 0:
        return np.zeros(0, np.intp)
    attraction = _kernel(rows, target, width).mean(axis=1)
    repulsion = np.zeros(len(rows))
    taken: list[int] = []
    for step in range(count):
        score = attraction - repulsion / (step + 1)
        score[taken] = -np.inf
        taken.append(int(score.argmax()))
        repulsion += _kernel(rows, rows[taken[-1:]], width)[:, 0]
    return np.array(taken, np.intp)


def _distinct_first(pool: FeatureTable) -> _Index:
    """Positions by content: the first of every content, then the repeats."""
    seen = dict[str, int]()
    repeats = [0] * len(pool)
    for index in sorted(range(len(pool)), key=lambda i: pool.ids[i]):
        digest = pool.digests[index]
        repeats[index] = seen.get(digest, 0)
        seen[digest] = repeats[index] + 1
    order = sorted(range(len(pool)), key=lambda i: (repeats[i], pool.digests[i]))
    return np.array(order, np.intp)


def _plausible(rows: _Rows, target: _Rows, count: int) -> _Index:
    """Candidates that a classifier could take for deployment, or the `count` likeliest."""
    both = np.concatenate([rows, target])
    weights, _ = fit_logistic(both, np.arange(len(both)) >= len(rows))
    scores = rows @ weights
    kept = np.flatnonzero(scores >= np.quantile(target @ weights, _UNLIKE_QUANTILE))
    return kept if len(kept) >= count else np.sort(np.argsort(-scores, kind="stable")[:count])


def _strata(
    rows: _Rows, target: _Rows, kept: _Index, count: int
) -> Sequence[tuple[_Index, _Rows, int]]:
    """Tail and bulk: which candidates are in it, what they shall match, and how many to take."""
    radius, of_target = np.linalg.norm(rows[kept], axis=1), np.linalg.norm(target, axis=1)
    edge = np.quantile(of_target, 1 - TAIL_FRACTION)
    tail = round(count * float((of_target > edge).mean()))
    return (
        (kept[radius > edge], target[of_target > edge], tail),
        (kept[radius <= edge], target[of_target <= edge], count - tail),
    )


def _bandwidth(target: _Rows) -> float:
    """Median distance of two samples, a common choice (Gretton et al. 2012)."""
    upper = np.triu_indices(len(target), 1)
    return float(np.median(np.sqrt(_squared_distances(target, target)[upper]))) or 1.0


def _kernel(a: _Rows, b: _Rows, width: float) -> _Rows:
    return np.exp(-_squared_distances(a, b) / (2 * width**2))


def _squared_distances(a: _Rows, b: _Rows) -> _Rows:
    """``(N, M)`` of ``(N, F)`` and ``(M, F)``."""
    cross = a @ b.T
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None]
    return np.maximum(squares - 2 * cross, 0)
