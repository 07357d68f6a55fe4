"""Tango's interval holds the differences that the score test does not reject."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from quantflow.numerics.tango import tango_interval

COUNTS = st.integers(1, 300).flatmap(
    lambda n: st.integers(0, n).flatmap(
        lambda b: st.tuples(st.just(b), st.integers(0, n - b), st.just(n))
    )
)


def test_it_is_the_published_interval() -> None:
    # Cavo et al. 2012: 59, 6, 16 and 80 of 161; estimate -0.0621, 95% interval -0.1240 to -0.0054
    # (Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables, 2017, chapter 8).
    low, high = tango_interval(6, 16, 161)
    assert low == pytest.approx(-0.1240, abs=5e-5)
    assert high == pytest.approx(-0.0054, abs=5e-5)


def _score(d: float, b: int, c: int, n: int) -> float:
    """The score statistic at a difference, with the likelihood maximised by search."""

    def loss(q: float) -> float:
        parts = ((b, q + d), (c, q), (n - b - c, 1 - 2 * q - d))
        return -sum(count * np.log(max(share, 1e-300)) for count, share in parts if count)

    bounds = (max(0.0, -d), (1 - d) / 2)
    q = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
    return (b - c - n * d) / np.sqrt(n * (2 * q + d - d * d))


@pytest.mark.parametrize(
    ("b", "c", "n"), [(7, 1, 21), (1, 7, 21), (12, 9, 60), (40, 20, 160), (3, 3, 500)]
)
def test_its_ends_are_where_the_score_test_just_rejects(b: int, c: int, n: int) -> None:
    for confidence in (0.8, 0.95):
        z = stats.norm.ppf((1 + confidence) / 2)
        low, high = tango_interval(b, c, n, confidence=confidence)
        assert _score(low, b, c, n) == pytest.approx(z, abs=2e-3)
        assert _score(high, b, c, n) == pytest.approx(-z, abs=2e-3)


def test_without_discordant_samples_it_is_as_wide_as_a_rule_of_three_or_so() -> None:
    # All (n d)^2 <= z^2 n d (1 - d) stay: d up to z^2 / (n + z^2).
    z2 = stats.norm.ppf(0.975) ** 2
    low, high = tango_interval(0, 0, 100)
    assert (low, high) == pytest.approx((-z2 / (100 + z2), z2 / (100 + z2)), rel=1e-9)


@given(COUNTS)
def test_it_holds_the_estimate_and_turns_with_the_sides(counts: tuple[int, int, int]) -> None:
    b, c, n = counts
    low, high = tango_interval(b, c, n)
    assert -1 <= low <= (b - c) / n <= high <= 1 and low < high
    assert tango_interval(c, b, n) == pytest.approx((-high, -low), abs=1e-12)


@settings(max_examples=50)
@given(COUNTS, st.integers(2, 20))
def test_more_samples_of_the_same_kind_narrow_it(counts: tuple[int, int, int], times: int) -> None:
    low, high = tango_interval(*counts)
    closer = tango_interval(*(times * count for count in counts))
    assert closer[1] - closer[0] < high - low


def test_it_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    shares = [0.06, 0.03, 0.91]
    draws = rng.multinomial(200, shares, size=1500)
    hits = [low <= 0.03 <= high for low, high in (tango_interval(b, c, 200) for b, c, _ in draws)]
    assert 0.93 <= np.mean(hits) <= 0.975


def test_more_discordant_samples_than_there_are_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="3 and 2 of 4"):
        tango_interval(3, 2, 4)
    with pytest.raises(ValueError, match="of 0"):
        tango_interval(0, 0, 0)
