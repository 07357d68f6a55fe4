"""The noise floor is what fresh samples of the same source show at the same sizes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from quantflow.calibration.drift.distances import distances, measures
from quantflow.calibration.drift.noise_floor import NoiseFloor, noise_floor
from quantflow.calibration.drift.sample_size import (
    effective_size,
    needed_sizes,
    repeat_verdict,
)
from quantflow.calibration.drift.sides import calibration_side, centres_for, deployment_side
from quantflow.calibration.features.table import FeatureTable

from .drift_tables import normal, profile, table


def _distances(a: FeatureTable, b: FeatureTable) -> np.ndarray:
    production = profile(b)
    side = calibration_side(a, production, len(a))
    return distances(side, deployment_side(production), centres_for(production, a))


SIZES = ((200, 200), (300, 100), (40, 400))
"""Further sizes of set and deployment, for the slow tests."""


@pytest.mark.parametrize(
    ("size", "deployment"),
    [(64, 200), *(pytest.param(*x, marks=pytest.mark.slow) for x in SIZES)],
)
def test_floors_are_the_quantiles_of_independent_draws(size: int, deployment: int) -> None:
    rng = np.random.default_rng(size)
    seen = np.array([_distances(normal(rng, size), normal(rng, deployment)) for _ in range(150)])
    # All six features have one distribution, so that their draws may be pooled.
    pooled = seen[:, :12].reshape(-1, 2, 6).swapaxes(1, 2).reshape(-1, 2)
    expected = np.append(np.quantile(pooled, 0.95, axis=0), np.quantile(seen[:, -1], 0.95))
    floors = [noise_floor(profile(normal(rng, deployment)), size, seed=i).floors for i in range(4)]
    found = np.mean(floors, axis=0)
    found = np.append(found[:12].reshape(2, 6).mean(axis=1), found[-1])
    np.testing.assert_allclose(found, expected, rtol=0.15)


@pytest.mark.parametrize(("size", "deployment"), [(200, 200), (50, 300)])
def test_the_limit_is_exceeded_by_few_draws_of_the_same_source(size: int, deployment: int) -> None:
    rng = np.random.default_rng([size, 1])
    above = 0
    for seed in range(40):
        production = normal(rng, deployment)
        floor = noise_floor(profile(production), size, seed=seed)
        effect = (_distances(normal(rng, size), production) / floor.floors).max()
        above += effect > floor.limit
        assert floor.p_value(effect) <= 1
    # One in a hundred is expected; five of forty would be a chance of 1 in 10,000.
    assert above < 5


def test_the_ks_floor_is_that_of_kolmogorov() -> None:
    rng = np.random.default_rng(0)
    production = profile(normal(rng, 400))
    floor = noise_floor(production, 100, seed=0)
    expected = stats.kstwobign.ppf(0.95) * (1 / 100 + 1 / 400) ** 0.5
    assert measures(production)[0].test == "ks"
    assert floor.floors[:6].mean() == pytest.approx(expected, rel=0.12)


def test_the_floor_of_the_outside_test_is_one_in_forty() -> None:
    # On either side, so that one of twenty is surprised by as much.
    floor = noise_floor(profile(normal(np.random.default_rng(3), 400)), 100, seed=0)
    assert floor.floors[12:18].mean() == pytest.approx(np.log2(40) ** 0.5, rel=0.15)


def test_a_p_value_is_the_share_of_splits_that_show_as_much() -> None:
    floor = NoiseFloor(np.ones(3), np.linspace(1, 2, 400))
    assert floor.p_value(3) == pytest.approx(1 / 401)
    assert floor.p_value(0) == 1
    assert floor.p_value(float(np.median(floor.largest))) == pytest.approx(0.5, abs=0.01)


def test_a_constant_feature_has_a_floor_for_what_may_not_have_shown_up() -> None:
    floor = noise_floor(profile(table(np.ones((50, 1)))), 100, seed=0)
    share = 2 * (1 / 100 + 1 / 50)
    np.testing.assert_allclose(floor.floors[:2], [share, (2 * share) ** 0.5])


def test_repeats_in_the_deployment_sample_raise_the_floor() -> None:
    values = np.random.default_rng(1).standard_normal((100, 6))
    once = noise_floor(profile(table(values)), 100, seed=0).floors
    digests = tuple(str(i // 2) for i in range(200))
    twice = table(np.repeat(values, 2, axis=0), digests=digests)
    np.testing.assert_allclose(noise_floor(profile(twice), 100, seed=0).floors, once, rtol=0.25)


def test_the_effective_size_is_that_of_kish() -> None:
    assert effective_size(["a"] * 50) == 1
    assert effective_size([str(i) for i in range(50)]) == 50
    assert effective_size(["a"] * 25 + [str(i) for i in range(25)]) == pytest.approx(2500 / 650)
    assert effective_size([]) == 0


def test_repeats_are_judged_by_what_deployment_does() -> None:
    distinct = [str(i) for i in range(20)]
    assert repeat_verdict(distinct, 1.0) == "pass"
    assert repeat_verdict(["a"] * 20, 1.0) == "fail"
    assert repeat_verdict(["a"] * 20, 1 / 30) == "pass"
    assert repeat_verdict([*distinct, "0", "1", "2", "3"], 1.0) == "warn"


@pytest.mark.parametrize(
    "sizes", [(64, 12), (64, 0), (10, 500), (5, 5), (64, 200), (41, 41), (40, 41), (1e9, 3)]
)
def test_the_needed_sizes_are_the_smallest_that_can_tell(sizes: tuple[float, float]) -> None:
    def chance(m: float, n: float) -> float:
        return float(stats.kstwobign.ppf(0.95)) * (1 / m + 1 / n) ** 0.5 if m and n else 9.0

    needed = needed_sizes(*sizes)
    enough = [new or old for new, old in zip(needed, sizes, strict=True)]
    assert chance(*enough) <= 0.3 + 1e-5
    if any(needed):
        assert chance(*sizes) > 0.3
        fewer = [size - 1 if new else size for size, new in zip(enough, needed, strict=True)]
        assert chance(*fewer) > 0.3
