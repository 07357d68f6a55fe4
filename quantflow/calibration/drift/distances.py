"""The distances between two samples: every feature by every test that fits it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.drift_record import DriftTest
from quantflow.calibration.drift.chi_square import chi_square_distance
from quantflow.calibration.drift.jensen_shannon import jensen_shannon
from quantflow.calibration.drift.ks import ks_distance
from quantflow.calibration.drift.mean_discrepancy import mean_discrepancy
from quantflow.calibration.drift.outside import beyond_extremes, surprise
from quantflow.calibration.drift.sides import Side
from quantflow.calibration.drift.wasserstein import wasserstein_distance
from quantflow.calibration.profile.profile import Profile

JOINT = "all features together"
"""Name of the feature that the maximum mean discrepancy is of."""

Floats = NDArray[np.float64]


class Test(NamedTuple):
    """What a distance comes to.

    Attributes:
        of_share: the distance of two samples that are alike but for a share, 0-1, of one of them
            that is unlike everything else.
        least: a distance that does not matter, however certain it is.
        shrinks: whether chance makes it smaller with more samples, as ``sqrt(1/m + 1/n)``.
    """

    of_share: Callable[[float], float]
    least: float
    shrinks: bool = True


def _itself(share: float) -> float:
    return share


def _root_of_half(share: float) -> float:
    return (share / 2) ** 0.5


def _root_of_double(share: float) -> float:
    return (2 * share) ** 0.5


def _times_root_two(share: float) -> float:
    return share * 2**0.5


def _nothing(share: float) -> float:
    return 0.0


TESTS: Final[dict[DriftTest, Test]] = {
    "ks": Test(_itself, least=0.05),
    "wasserstein": Test(_root_of_double, least=0.1),
    "outside": Test(_nothing, least=2.3, shrinks=False),
    "uncovered": Test(_nothing, least=2.3, shrinks=False),
    "jensen-shannon": Test(_root_of_half, least=0.05),
    "chi-square": Test(_root_of_half, least=0.05),
    "mmd": Test(_times_root_two, least=0.05),
}
"""All tests. The first four are of features that are one number a sample; `jensen-shannon` is of
counts, `chi-square` of categories and `mmd` of all scalar features at once."""

SCALAR_TESTS: Final[tuple[DriftTest, ...]] = ("ks", "wasserstein", "outside", "uncovered")


class Measure(NamedTuple):
    """A feature and a test of it."""

    feature: str
    test: DriftTest


def measures(profile: Profile) -> list[Measure]:
    """What `distances` returns, in its order."""
    return [
        *(Measure(name, test) for test in SCALAR_TESTS for name in profile.names),
        *(Measure(name, "jensen-shannon") for name in profile.counts),
        *(Measure(name, "chi-square") for name in profile.categories),
        Measure(JOINT, "mmd"),
    ]


def distances(a: Side, b: Side, centres: Floats) -> Floats:
    """Distance of two sides by each of `measures`; ``(..., K)``.

    Args:
        a, b: with the same leading axes, none of the samples empty.
        centres: ``(F, BINS)``, see `centres_for`.
    """
    return np.concatenate(list(_distances(a, b, centres)), axis=-1)


def _distances(a: Side, b: Side, centres: Floats) -> Iterator[Floats]:
    yield ks_distance(a.scalars, b.scalars)
    yield wasserstein_distance(a.scalars, b.scalars, centres)
    yield _surprise(a, b)
    yield _surprise(b, a)
    for name in b.counts:
        yield jensen_shannon(a.counts[name], b.counts[name])[..., None]
    for name in b.categories:
        yield chi_square_distance(a.categories[name], b.categories[name])[..., None]
    yield mean_discrepancy(a.mean, b.mean)[..., None]


def _surprise(a: Side, b: Side) -> Floats:
    """That so many samples of `a` lie beyond all of `b`. Repeated samples surprise only once."""
    worth = a.effective / a.size
    beyond = beyond_extremes(a.scalars, b.scalars) * worth[..., None]
    return surprise(beyond, a.effective[..., None], b.effective[..., None])


def least_distances(profile: Profile, share: float) -> Floats:
    """What samples cannot rule out, or what does not matter, for each of `measures`; ``(K,)``.

    Args:
        profile: of the deployment sample.
        share: of samples, 0-1, that may be unlike all others without having shown up yet.
    """
    least = {name: max(test.of_share(share), test.least) for name, test in TESTS.items()}
    return np.array([least[measure.test] for measure in measures(profile)])


def chance_scales(profile: Profile, ratio: float | Floats) -> Floats:
    """What chance makes of each of `measures` when `ratio` is what it makes of means; ``(..., K)``.

    Args:
        profile: of the deployment sample.
        ratio: ``(...)`` of two values of ``sqrt(1/m + 1/n)``.
    """
    shrinks = np.array([TESTS[measure.test].shrinks for measure in measures(profile)])
    return np.where(shrinks, np.asarray(ratio)[..., None], 1.0)
