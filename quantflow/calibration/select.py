"""Re-selection: from a pool of candidates, the samples that together look like deployment.

First a classifier of pool against deployment drops candidates that look like nothing in deployment
(its odds are the density ratio). Then kernel herding picks from the others, one after the other, what
brings the mean of the selection in feature space closest to that of deployment. Deployment's
outermost samples get their share of the selection to themselves, since they decide the ranges and a
kernel mean hardly feels them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.drift.classifier import fit_logistic, standardize
from quantflow.calibration.features.table import FeatureTable

TAIL_FRACTION = 0.1
"""Share of deployment that counts as its tail: the samples furthest from its mean."""

_UNLIKE_QUANTILE = 0.01
"""Candidates that score below this quantile of deployment's own scores are dropped."""


def select_matching(pool: FeatureTable, deployment: FeatureTable, count: int) -> list[int]:
    """Choose candidates that match deployment.

    Nothing is random, and the choice does not depend on the order of the pool. A content is chosen
    twice only when there are fewer contents than `count`.

    Args:
        pool: candidates, at least `count`.
        deployment: what they shall look like, at least two samples.
        count: number of samples wanted.

    Returns:
        Positions in the pool, in the order of choice.
    """
    order = _order(pool)
    rows = standardize(pool.values[order], deployment.values)
    target = standardize(deployment.values, deployment.values)
    kept = _plausible(rows, target, count)
    chosen: list[int] = []
    for inner, outer, share in _strata(rows, target, count):
        candidates = [i for i in kept if i in outer and i not in chosen]
        chosen += _herd(rows, candidates, target[inner], share)
    rest = [i for i in kept if i not in chosen]
    chosen += _herd(rows, rest, target, count - len(chosen))
    return [order[i] for i in chosen]
