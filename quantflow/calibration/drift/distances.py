"""The distances between two sets of samples: every feature by every test that fits it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.drift_record import DriftTest
from quantflow.calibration.drift.jensen_shannon import jensen_shannon
from quantflow.calibration.drift.ks import ks_distance
from quantflow.calibration.drift.wasserstein import wasserstein_distance
from quantflow.calibration.features.table import FeatureTable

Columns = NDArray[np.float64]


class ScalarTest(NamedTuple):
    """A distance of columns, and what it comes to when a share of one sample lies far outside.

    Attributes:
        distance: maps ``(N, F)`` and ``(M, F)`` to ``(F,)``.
        of_share: the distance of a constant column to one where a share, 0-1, has another value.
        least: a distance that does not matter, however certain it is.
    """

    distance: Callable[[Columns, Columns], Columns]
    of_share: Callable[[float], float]
    least: float


def _itself(share: float) -> float:
    return share


def _root_of_double(share: float) -> float:
    return (2 * share) ** 0.5


SCALAR_TESTS: Final[dict[DriftTest, ScalarTest]] = {
    "ks": ScalarTest(ks_distance, _itself, least=0.05),
    "wasserstein": ScalarTest(wasserstein_distance, _root_of_double, least=0.1),
}
"""Tests of features that are one number a sample."""

COUNT_TEST: Final[DriftTest] = "jensen-shannon"
"""Test of features that are counts of categories."""

_LEAST_OF_COUNTS = 0.05


class Measure(NamedTuple):
    """A feature and a test of it."""

    feature: str
    test: DriftTest


def measures(table: FeatureTable) -> list[Measure]:
    """What `distances` returns, in its order."""
    scalars = [Measure(name, test) for test in SCALAR_TESTS for name in table.names]
    return [*scalars, *(Measure(name, COUNT_TEST) for name in table.counts)]


def distances(a: FeatureTable, b: FeatureTable) -> NDArray[np.float64]:
    """Distance of two sets by each of `measures`; ``(K,)``.

    Args:
        a, b: tables with the same features, neither empty.
    """
    scalars = [test.distance(a.values, b.values) for test in SCALAR_TESTS.values()]
    totals = [
        jensen_shannon(a.counts[name].sum(axis=0), b.counts[name].sum(axis=0)) for name in a.counts
    ]
    return np.concatenate([*scalars, np.array(totals, np.float64)])


def least_distances(table: FeatureTable, share: float) -> NDArray[np.float64]:
    """What samples cannot rule out, or what does not matter, for each of `measures`; ``(K,)``.

    Args:
        table: any with the features.
        share: of samples, 0-1, that may be unlike all others without having shown up yet. Of
            counts, it lies in a category of its own, which makes ``share / 2`` bits.
    """
    scalars = [
        np.full(len(table.names), max(test.of_share(share), test.least))
        for test in SCALAR_TESTS.values()
    ]
    of_counts = max((share / 2) ** 0.5, _LEAST_OF_COUNTS)
    return np.concatenate([*scalars, np.full(len(table.counts), of_counts)])
