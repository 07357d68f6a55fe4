"""The noise floor is what fresh samples of the same source show at the same sizes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from quantflow.calibration.drift.distances import distances, measures
from quantflow.calibration.drift.noise_floor import noise_floor
from quantflow.calibration.drift.sample_size import (
    effective_size,
    needed_sizes,
    repeat_verdict,
)

from .drift_tables import normal, table


@pytest.mark.parametrize(("size", "deployment"), [(200, 200), (64, 200), (300, 100), (40, 400)])
def test_floors_are_the_quantiles_of_independent_draws(size: int, deployment: int) -> None:
    rng = np.random.default_rng(size)
    seen = np.array([distances(normal(rng, size), normal(rng, deployment)) for _ in range(150)])
    # All six features have one distribution, so that their draws may be pooled.
    expected = np.quantile(seen.reshape(-1, 2, 6).swapaxes(1, 2).reshape(-1, 2), 0.95, axis=0)
    floors = [
        noise_floor(normal(rng, deployment), size, deployment, seed=i).floors for i in range(4)
    ]
    found = np.mean(floors, axis=0).reshape(2, 6).mean(axis=1)
    np.testing.assert_allclose(found, expected, rtol=0.15)


def test_the_ks_floor_is_that_of_kolmogorov() -> None:
    rng = np.random.default_rng(0)
    floor = noise_floor(normal(rng, 400), 100, 400, seed=0)
    expected = stats.kstwobign.ppf(0.95) * (1 / 100 + 1 / 400) ** 0.5
    assert measures(normal(rng, 2))[0].test == "ks"
    assert floor.floors[:6].mean() == pytest.approx(expected, rel=0.12)


def test_a_constant_feature_has_a_floor_for_what_may_not_have_shown_up() -> None:
    floor = noise_floor(table(np.ones((50, 1))), 100, 50, seed=0)
    share = 2 * (1 / 100 + 1 / 50)
    np.testing.assert_allclose(floor.floors, [share, (2 * share) ** 0.5])


def test_repeats_in_the_deployment_sample_raise_the_floor() -> None:
    values = np.random.default_rng(1).standard_normal((100, 6))
    once = noise_floor(table(values), 100, 100, seed=0).floors
    twice = noise_floor(table(np.repeat(values, 2, axis=0)), 100, 100, seed=0).floors
    np.testing.assert_allclose(twice, once, rtol=0.25)


def test_the_effective_size_is_that_of_kish() -> None:
    assert effective_size(["a"] * 50) == 1
    assert effective_size([str(i) for i in range(50)]) == 50
    assert effective_size(["a"] * 25 + [str(i) for i in range(25)]) == pytest.approx(2500 / 650)
    assert effective_size([]) == 0


def test_repeats_are_judged_by_what_deployment_does() -> None:
    distinct = [str(i) for i in range(20)]
    assert repeat_verdict(distinct, distinct) == "pass"
    assert repeat_verdict(["a"] * 20, distinct) == "fail"
    assert repeat_verdict(["a"] * 20, ["b"] * 30) == "pass"
    assert repeat_verdict([*distinct, "0", "1", "2", "3"], ()) == "warn"


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
