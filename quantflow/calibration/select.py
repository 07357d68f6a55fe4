"""Re-selection: from a pool of candidates, the samples that together look like deployment.

First candidates that lie where deployment is hardly ever are dropped. Then kernel herding picks
from the others, one after the other, what brings the mean of the selection in the space of a kernel
closest to that of deployment. Deployment's outermost samples get their share of the selection to
themselves, since they decide the ranges and a kernel mean hardly feels them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.profile.kernel import KernelSketch

MOST = 16_384
"""Plausible candidates that herding looks at, by chance where there are more, the tail first."""

_Rows = NDArray[np.float64]
_Index = NDArray[np.intp]


def select_matching(pool: FeatureTable, sketch: KernelSketch, count: int) -> list[int]:
    """Choose candidates that match deployment by their scalar features.

    Nothing is random, and the choice does not depend on the order of the pool. Repeated contents
    are chosen only when there are fewer than `count` different ones, and candidates that look like
    nothing in deployment only when there are fewer than `count` others.

    Args:
        pool: at least `count` candidates, with the features of `sketch`.
        sketch: of the deployment sample.
        count: number of samples wanted.

    Returns:
        Positions in the pool, in the order of choice.
    """
    order = _distinct_first(pool)
    order = order[: max(len(set(pool.digests)), count)]
    rows = sketch.standardized(pool)[order]
    kept = _plausible(rows, sketch, count)
    rows, order = rows[kept], order[kept]
    in_tail = np.linalg.norm(rows, axis=1) > sketch.edge
    kept = _at_most(in_tail, max(MOST, count))
    features, in_tail, order = sketch.features(rows[kept]), in_tail[kept], order[kept]
    chosen = np.concatenate(list(_by_stratum(features, in_tail, sketch, count)))
    rest = np.setdiff1d(np.arange(len(order)), chosen)
    more = herd(features[rest], sketch.mean, count - len(chosen))
    return [int(i) for i in order[np.append(chosen, rest[more])]]


def herd(features: _Rows, target: _Rows, count: int) -> _Index:
    """Kernel herding (Chen, Welling and Smola 2010) without replacement.

    Each step takes the row x with the largest ``<x, target> - sum_s <x, s> / (t + 1)`` over the t
    rows s taken so far; of equal rows the first.

    Args:
        features: ``(N, D)`` to take from, in the space of the kernel.
        target: ``(D,)`` mean to match.
        count: how many to take, or all when there are fewer.

    Returns:
        Positions in `features`, in the order of choice.
    """
    count = min(count, len(features))
    attraction, repulsion = features @ target, np.zeros(len(features))
    taken: list[int] = []
    for step in range(max(count, 0)):
        score = attraction - repulsion / (step + 1)
        score[taken] = -np.inf
        taken.append(int(score.argmax()))
        repulsion += features @ features[taken[-1]]
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


def _plausible(rows: _Rows, sketch: KernelSketch, count: int) -> _Index:
    """Candidates where deployment is dense enough, or the `count` likeliest."""
    density = sketch.density(rows)
    kept = np.flatnonzero(density >= sketch.least_density)
    return kept if len(kept) >= count else np.sort(np.argsort(-density, kind="stable")[:count])


def _at_most(in_tail: NDArray[np.bool_], most: int) -> _Index:
    """No more than `most` candidates, in their order, up to half of them from the tail.

    They come in the order of their digests, so the first ones are a random draw.
    """
    tail, bulk = np.flatnonzero(in_tail), np.flatnonzero(~in_tail)
    some = tail[: max(most // 2, most - len(bulk))]
    return np.sort(np.append(some, bulk[: most - len(some)]))


def _by_stratum(
    features: _Rows, in_tail: NDArray[np.bool_], sketch: KernelSketch, count: int
) -> Iterator[_Index]:
    """What is taken of the tail and of the bulk, each by its share of deployment."""
    tail = round(count * sketch.tail_fraction)
    for inside, target, wanted in (
        (in_tail, sketch.mean_of_tail, tail),
        (~in_tail, sketch.mean_of_bulk, count - tail),
    ):
        places = np.flatnonzero(inside)
        yield places[herd(features[places], target, wanted)]
