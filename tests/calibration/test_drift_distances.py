"""Distances against scipy and closed forms."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import jensenshannon

from quantflow.artifacts.drift_record import DriftTest
from quantflow.calibration.drift.distances import (
    COUNT_TEST,
    SCALAR_TESTS,
    distances,
    least_distances,
    measures,
)
from quantflow.calibration.drift.jensen_shannon import jensen_shannon
from quantflow.calibration.drift.ks import ks_distance
from quantflow.calibration.drift.wasserstein import wasserstein_distance

from .drift_tables import table

# Few different values, so that ties occur.
_COLUMN = st.lists(st.integers(-3, 3), min_size=1, max_size=12)


def _columns(values: list[int]) -> np.ndarray:
    return np.array(values, np.float64)[:, None] * [[1.0, 0.3]]


@settings(max_examples=100, deadline=None)
@given(a=_COLUMN, b=_COLUMN)
def test_ks_is_that_of_scipy_with_ties(a: list[int], b: list[int]) -> None:
    expected = stats.ks_2samp(a, b, method="asymp").statistic
    np.testing.assert_allclose(ks_distance(_columns(a), _columns(b)), expected, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(a=_COLUMN, b=_COLUMN)
def test_wasserstein_is_that_of_scipy_over_the_spread_of_the_mixture(
    a: list[int], b: list[int]
) -> None:
    # Repeating the samples to equal numbers gives the mixture in equal parts.
    mixture = np.concatenate([np.repeat(a, len(b)), np.repeat(b, len(a))])
    spread = mixture.std()
    expected = stats.wasserstein_distance(a, b) / spread if spread else 0.0
    found = wasserstein_distance(_columns(a), _columns(b))
    np.testing.assert_allclose(found, expected, atol=1e-9)  # and the scale does not matter


@settings(max_examples=100, deadline=None)
@given(
    p=st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any),
    q=st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any),
)
def test_jensen_shannon_is_that_of_scipy(p: list[int], q: list[int]) -> None:
    expected = jensenshannon(p, q, base=2)
    # The square root magnifies rounding errors near 0.
    assert jensen_shannon(np.array(p), np.array(q)) == pytest.approx(expected, abs=1e-7)


def test_bounds_are_reached_by_constants() -> None:
    a, b = np.zeros((3, 1)), np.ones((5, 1))
    assert ks_distance(a, b) == 1
    assert wasserstein_distance(a, b) == pytest.approx(2)
    assert jensen_shannon(np.array([1, 0]), np.array([0, 7])) == pytest.approx(1)
    for distance in (ks_distance, wasserstein_distance):
        assert distance(a, a) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e9])
def test_one_extreme_value_does_not_carry_a_distance_away(size: float) -> None:
    a = np.zeros((50, 1))
    a[0] = size
    assert wasserstein_distance(a, np.zeros((200, 1))) == pytest.approx((2 / 50) ** 0.5, rel=0.01)


def test_a_share_of_odd_samples_comes_to_what_the_table_says() -> None:
    odd = np.zeros((1000, 1))
    odd[:20] = 1e6
    a = table(odd, counts={"c": np.stack([[98, 2]] * 1000)})
    b = table(np.zeros((1000, 1)), counts={"c": np.stack([[100, 0]] * 1000)})
    assert [x.test for x in measures(a)] == ["ks", "wasserstein", "jensen-shannon"]
    floors = np.maximum(distances(a, b), [0.05, 0.1, 0.05])
    np.testing.assert_allclose(floors, least_distances(a, 0.02), rtol=0.02)


def test_the_record_names_the_tests_of_the_table() -> None:
    assert {*SCALAR_TESTS, COUNT_TEST} == set(get_args(DriftTest))
