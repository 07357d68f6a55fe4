"""Distances of histograms against scipy, closed forms and brute force."""

from __future__ import annotations

from math import comb
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import jensenshannon

from quantflow.artifacts.drift_record import DriftTest
from quantflow.calibration.drift.chi_square import chi_square_distance
from quantflow.calibration.drift.distances import (
    TESTS,
    distances,
    least_distances,
    measures,
)
from quantflow.calibration.drift.jensen_shannon import jensen_shannon
from quantflow.calibration.drift.ks import ks_distance
from quantflow.calibration.drift.mean_discrepancy import mean_discrepancy
from quantflow.calibration.drift.outside import beyond_extremes, surprise
from quantflow.calibration.drift.sides import calibration_side, centres_for, deployment_side
from quantflow.calibration.drift.stability_index import stability_index
from quantflow.calibration.drift.wasserstein import wasserstein_distance

from .drift_tables import profile, table

# Few different values, so that ties occur.
_COLUMN = st.lists(st.integers(0, 6), min_size=1, max_size=12)
_COUNTS = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)
_VALUES = np.arange(7.0)


def _histogram(values: list[int]) -> np.ndarray:
    return np.bincount(values, minlength=7)


@settings(max_examples=100)
@given(a=_COLUMN, b=_COLUMN)
def test_ks_is_that_of_scipy_with_ties(a: list[int], b: list[int]) -> None:
    expected = stats.ks_2samp(a, b, method="asymp").statistic
    assert ks_distance(_histogram(a), _histogram(b)) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=100)
@given(a=_COLUMN, b=_COLUMN, scale=st.sampled_from([1.0, 0.3, 1e6]))
def test_wasserstein_is_that_of_scipy_over_the_spread_of_the_mixture(
    a: list[int], b: list[int], scale: float
) -> None:
    # Repeating the samples to equal numbers gives the mixture in equal parts.
    mixture = np.concatenate([np.repeat(a, len(b)), np.repeat(b, len(a))])
    spread = mixture.std()
    expected = stats.wasserstein_distance(a, b) / spread if spread else 0.0
    found = wasserstein_distance(_histogram(a), _histogram(b), _VALUES * scale)
    assert found == pytest.approx(expected, abs=1e-9)


@settings(max_examples=100)
@given(p=_COUNTS, q=_COUNTS)
def test_jensen_shannon_is_that_of_scipy(p: list[int], q: list[int]) -> None:
    expected = jensenshannon(p, q, base=2)
    # The square root magnifies rounding errors near 0.
    assert jensen_shannon(np.array(p), np.array(q)) == pytest.approx(expected, abs=1e-7)


@settings(max_examples=100)
@given(p=_COUNTS, q=_COUNTS)
def test_chi_square_is_cramers_v_of_equal_samples(p: list[int], q: list[int]) -> None:
    a, b = np.array(p) * sum(q), np.array(q) * sum(p)  # as many of each
    kept = (a + b) > 0
    if kept.sum() > 1:
        expected = stats.contingency.association(np.stack([a, b])[:, kept], method="cramer")
        assert chi_square_distance(a, b) == pytest.approx(expected, abs=1e-9)
    assert chi_square_distance(a, b) == pytest.approx(float(chi_square_distance(b, a)))


@settings(max_examples=100)
@given(p=_COUNTS, q=_COUNTS)
def test_the_stability_index_is_jeffreys_divergence(p: list[int], q: list[int]) -> None:
    a, b = np.array(p) + 1, np.array(q) + 1  # no empty bin, so that the floor does nothing
    x, y = a / a.sum(), b / b.sum()
    expected = stats.entropy(x, y) + stats.entropy(y, x)
    assert stability_index(a, b) == pytest.approx(expected, abs=1e-12)
    assert np.isfinite(stability_index(np.array(p), np.array(q)))


def test_an_empty_bin_counts_half_a_sample() -> None:
    p, q = np.array([10, 0]), np.array([5, 5])
    a, b = np.array([10, 0.5]) / 10.5, np.array([0.5, 0.5])
    expected = float(((a - b) * np.log(a / b)).sum())
    assert stability_index(p, q) == pytest.approx(expected)


@settings(max_examples=60)
@given(size=st.integers(1, 30), other=st.integers(1, 30), data=st.data())
def test_surprise_is_the_root_of_bits_of_the_exact_probability(
    size: int, other: int, data: st.DataObject
) -> None:
    beyond = data.draw(st.integers(0, size))
    # Of all ways to say which samples are the first set's, those where the furthest all are.
    probability = comb(size + other - beyond, other) / comb(size + other, other)
    found = surprise(np.array(beyond), np.array(size), np.array(other))
    assert float(found) ** 2 == pytest.approx(-np.log2(probability), abs=1e-9)


@settings(max_examples=100)
@given(a=_COLUMN, b=_COLUMN)
def test_samples_beyond_the_extremes_are_counted(a: list[int], b: list[int]) -> None:
    expected = max(sum(x < min(b) for x in a), sum(x > max(b) for x in a))
    assert beyond_extremes(_histogram(a), _histogram(b)) == expected


def test_the_mean_discrepancy_is_that_of_all_pairs_of_a_linear_kernel() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((9, 4)), rng.standard_normal((7, 4))
    squared = (a @ a.T).mean() + (b @ b.T).mean() - 2 * (a @ b.T).mean()
    assert mean_discrepancy(a.mean(axis=0), b.mean(axis=0)) == pytest.approx(squared**0.5)


def test_bounds_are_reached_by_constants() -> None:
    a, b = np.array([3, 0]), np.array([0, 5])
    assert ks_distance(a, b) == 1
    assert wasserstein_distance(a, b, np.arange(2.0)) == pytest.approx(2)
    assert jensen_shannon(a, b) == pytest.approx(1)
    assert chi_square_distance(a, b) == pytest.approx(1)
    assert ks_distance(a, a) == wasserstein_distance(a, a, np.arange(2.0)) == 0


@pytest.mark.parametrize("size", [1.0, 1e3, 1e9])
def test_one_extreme_value_does_not_carry_a_distance_away(size: float) -> None:
    found = wasserstein_distance(np.array([49, 1]), np.array([200, 0]), np.array([0, size]))
    assert found == pytest.approx((2 / 50) ** 0.5, rel=0.01)


def test_a_share_of_odd_samples_comes_to_what_the_table_says() -> None:
    odd = np.zeros((1000, 1))
    odd[:20] = 1e6
    one, other = [1, 0], [0, 1]
    a = table(
        odd,
        counts={"c": np.stack([[98, 2]] * 1000)},
        categories={"k": np.array([other] * 20 + [one] * 980)},
    )
    b = table(
        np.zeros((1000, 1)),
        counts={"c": np.stack([[100, 0]] * 1000)},
        categories={"k": np.array([one] * 1000)},
    )
    production = profile(b)
    tests = [x.test for x in measures(production)]
    assert tests == [
        *("ks", "wasserstein", "outside", "uncovered", "jensen-shannon", "chi-square", "mmd")
    ]
    side = calibration_side(a, production, 1000)
    found = distances(side, deployment_side(production), centres_for(production, a))
    expected = [TESTS[test].of_share(0.02) for test in tests]
    np.testing.assert_allclose(found[[0, 1, 4, 5]], np.array(expected)[[0, 1, 4, 5]], rtol=0.02)
    # The kernel is at most 1 wide of the mark: unlike samples share nothing.
    assert 0 < found[6] <= expected[6]
    least = least_distances(production, 0.2)
    np.testing.assert_allclose(least[:2], [0.2, 0.4**0.5])


def test_both_directions_are_tested_and_told_apart() -> None:
    clean, odd = np.arange(60.0)[:, None] % 11, np.arange(80.0)[:, None] % 11
    odd[:20] += 50
    surprise_of_20 = (-np.log2(comb(60 + 80 - 20, 60) / comb(60 + 80, 60))) ** 0.5
    for a, b, expected in ((odd, clean, (surprise_of_20, 0)), (clean, odd, (0, surprise_of_20))):
        ours, production = table(a), profile(table(b))
        side = calibration_side(ours, production, len(a))
        found = distances(side, deployment_side(production), centres_for(production, ours))
        assert found[2:4] == pytest.approx(expected, abs=1e-9)


def test_the_record_names_the_tests_of_the_table() -> None:
    assert set(TESTS) == set(get_args(DriftTest))
