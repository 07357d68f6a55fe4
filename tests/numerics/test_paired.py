"""Paired differences: what samples differ by cancels, and the interval is that of resamples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.numerics.paired import paired_means, paired_statistics


def _two(count: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    hard = rng.normal(0, 5, count)
    return hard + rng.normal(0.2, 0.1, count), hard


def test_means_are_compared_sample_by_sample() -> None:
    first, second = _two(400, 0)
    found = paired_means(first, second, seed=0)
    assert found.difference == pytest.approx(float(first.mean() - second.mean()))
    assert found.spread == pytest.approx(float(np.std(first - second, ddof=1)), rel=1e-12)
    error = found.spread / 20
    assert found.low == pytest.approx(found.difference - 1.96 * error, abs=0.3 * error)
    assert found.high == pytest.approx(found.difference + 1.96 * error, abs=0.3 * error)
    # Unpaired, the standard error would be sqrt(2) 5 / 20 = 0.35.
    assert found.high - found.low < 0.03


def test_weights_count_samples_and_resamples_alike() -> None:
    first, second = np.array([1.0, 2.0, 7.0]), np.array([0.0, 0.0, np.nan])
    found = paired_means(first, second, np.array([3.0, 1.0, 0.0]), seed=3)
    assert found.difference == 1.25
    rng = np.random.default_rng(3)
    draws = [rng.integers(0, 2, 2) for _ in range(1000)]
    x, w = np.array([1.0, 2.0]), np.array([3.0, 1.0])
    expected = [float((x[i] * w[i]).sum() / w[i].sum()) for i in draws]
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(expected, [0.025, 0.975])))
    # 2 / 1 ((3 * .25)^2 + (1 * .75)^2) is the square of the sum's standard error, over 4^2.
    assert found.spread == pytest.approx(np.sqrt(2 * 2 * (0.75**2 + 0.75**2)) / 4)


def test_the_weighted_spread_foretells_how_far_means_scatter() -> None:
    rng = np.random.default_rng(1)

    def means() -> tuple[float, float]:
        w = rng.integers(1, 100, 200).astype(float)
        x = rng.normal(0, 1 + w / 50)
        found = paired_means(x, np.zeros(200), w, seed=0)
        return found.difference, found.spread

    many = np.array([means() for _ in range(100)])
    assert many[:, 0].std() * np.sqrt(200) == pytest.approx(many[:, 1].mean(), rel=0.2)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 60), st.integers(0, 10**6))
def test_the_other_way_round_it_is_the_negative(count: int, seed: int) -> None:
    first, second = _two(count, seed)
    one, other = paired_means(first, second, seed=1), paired_means(second, first, seed=1)
    assert other.difference == -one.difference and other.spread == pytest.approx(one.spread)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=1e-12)
    same = paired_means(first, first, seed=1)
    assert (same.difference, same.low, same.high, same.spread) == (0, 0, 0, 0)


def test_a_statistic_of_means_gives_what_the_means_give() -> None:
    first, second = _two(80, 5)
    means = paired_means(first, second, seed=2)
    found = paired_statistics(
        lambda draw: float(first[draw].mean()), lambda draw: float(second[draw].mean()), 80, seed=2
    )
    assert found.difference == pytest.approx(means.difference)
    assert (found.low, found.high) == pytest.approx((means.low, means.high))
    assert found.spread == pytest.approx(means.spread, rel=0.1)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_nan(bad: float) -> None:
    first, second = _two(10, 0)
    first[4] = bad
    for found in (
        paired_means(first, second, seed=0),
        paired_means(first, first, seed=0),
        paired_statistics(lambda i: float(first[i].mean()), lambda i: 0.0, 10, seed=0),
    ):
        assert np.isnan([found.low, found.high, found.spread]).all()


def test_one_sample_has_no_spread_and_none_no_difference() -> None:
    one = np.ones(1)
    assert paired_means(one, 0 * one, seed=0).difference == 1
    assert np.isnan(paired_means(one, 0 * one, seed=0).spread)
    assert np.isnan(paired_means(one, one, 0 * one, seed=0).difference)
    with pytest.raises(ValueError, match="and weights"):
        paired_means(one, np.ones(2), seed=0)
