"""Bootstrap intervals of a mean."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from quantflow.numerics.bootstrap import bootstrap_interval, mean_interval


def test_the_interval_of_a_mean_is_that_of_scipy() -> None:
    values = np.random.default_rng(0).exponential(size=200)
    low, high = mean_interval(values, seed=0)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    width = expected.high - expected.low
    assert low == pytest.approx(expected.low, abs=0.1 * width)
    assert high == pytest.approx(expected.high, abs=0.1 * width)


def test_it_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(200):
        low, high = mean_interval(rng.normal(size=40), seed=3)
        hits += low <= 0 <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(0).normal(size=20)
    assert mean_interval(values, seed=7) == mean_interval(values, seed=7)
    assert mean_interval(values, seed=7) != mean_interval(values, seed=8)


def test_equal_values_have_no_width() -> None:
    assert mean_interval(np.full(5, 0.5), seed=0) == (0.5, 0.5)
    assert mean_interval(np.array([0.25]), seed=0) == (0.25, 0.25)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_makes_the_interval_of_a_mean_nan(bad: float) -> None:
    values = np.ones(50)
    values[3] = bad
    assert np.isnan(mean_interval(values, seed=0)).all()


def test_resamples_without_a_value_are_left_out_of_any_other_statistic() -> None:
    def spread(draw: np.ndarray) -> float:
        return float("nan") if len(set(draw.tolist())) == 1 else float(np.ptp(draw))

    low, high = bootstrap_interval(spread, 3, seed=0)
    assert 1 <= low <= high <= 2
    assert np.isnan(bootstrap_interval(lambda _: float("nan"), 3, seed=0)).all()
