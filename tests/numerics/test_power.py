"""The number of samples that a drop takes to be seen, against simulations of the tests."""

from __future__ import annotations

from math import inf, isnan

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from quantflow.numerics.power import mean_seen, samples_for_mean, samples_for_share, share_seen


def _power_of_mcnemar(count: int, drop: float, discordant: float) -> float:
    """How often the exact test at 5% reports the drop, over all outcomes."""
    found = 0.0
    for pairs, chance in enumerate(stats.binom.pmf(np.arange(count + 1), count, discordant)):
        if chance < 1e-9:
            continue
        lost = np.arange(pairs + 1)
        tails = 2 * stats.binom.cdf(np.minimum(lost, pairs - lost), pairs, 0.5)
        of_lost = stats.binom.pmf(lost, pairs, (1 + drop / discordant) / 2)
        found += chance * float(of_lost[tails <= 0.05].sum())
    return found


@pytest.mark.parametrize(
    ("drop", "discordant"), [(0.05, 0.1), (0.05, 0.2), (0.1, 0.15), (0.03, 0.06), (0.02, 0.02)]
)
def test_mcnemars_test_sees_the_drop_in_four_of_five_cases(drop: float, discordant: float) -> None:
    count = int(samples_for_share(drop, discordant))
    assert _power_of_mcnemar(count, drop, discordant) == pytest.approx(0.8, abs=0.05)
    assert _power_of_mcnemar(count // 2, drop, discordant) < 0.6


def test_the_numbers_are_those_of_the_formula_by_hand() -> None:
    # (1.959964 sqrt(.1) + 0.841621 sqrt(.1 - .0025))^2 / .0025 = 0.778233 / .0025
    by_hand = (1.959964 * 0.1**0.5 + 0.841621 * 0.0975**0.5) ** 2 / 0.0025
    assert samples_for_share(0.05, 0.1) == np.ceil(by_hand) == 312
    # Cohen 1988: a difference of half a standard deviation takes 32 pairs (31.4).
    assert samples_for_mean(0.5, 1.0) == 32
    assert mean_seen(100, 1.0) == pytest.approx(0.28016, abs=1e-5)


def test_a_mean_is_seen_to_fall_in_four_of_five_cases() -> None:
    rng = np.random.default_rng(0)
    count = int(samples_for_mean(0.02, 0.1))
    draws = rng.normal(0.02, 0.1, size=(4000, count))
    p = stats.ttest_1samp(draws, 0, axis=1).pvalue
    assert float((p < 0.05).mean()) == pytest.approx(0.8, abs=0.02)


SHARES = st.floats(1e-4, 1)


@given(SHARES, st.floats(0, 1), st.integers(4, 10**6))
def test_what_is_seen_is_the_smallest_drop_that_needs_no_more_samples(
    drop: float, discordant: float, count: int
) -> None:
    seen = share_seen(count, discordant)
    assume(seen < 1)
    assert (
        samples_for_share(seen, discordant)
        <= count
        < samples_for_share(seen * 0.999, discordant) + 1
    )
    assert share_seen(4 * count, discordant) < seen


@given(SHARES, SHARES, st.floats(0, 1))
def test_a_smaller_drop_takes_more_samples(drop: float, other: float, discordant: float) -> None:
    small, large = sorted((drop, other))
    assert samples_for_share(small, discordant) >= samples_for_share(large, discordant)
    assert samples_for_mean(small, 0.3) >= samples_for_mean(large, 0.3)


@given(SHARES, st.floats(0, 1), st.floats(0, 1))
def test_more_discordant_samples_hide_a_drop(drop: float, share: float, other: float) -> None:
    few, many = sorted((share, other))
    assert samples_for_share(drop, few) <= samples_for_share(drop, many)


@given(st.floats(1e-3, 10), st.integers(1, 10**5))
def test_the_drop_of_a_mean_that_is_seen_needs_just_these_samples(
    spread: float, count: int
) -> None:
    assert samples_for_mean(mean_seen(count, spread) * 1.0001, spread) <= count
    assert samples_for_mean(mean_seen(count, spread) * 0.999, spread) >= count


def test_no_drop_is_never_seen_and_few_samples_see_none() -> None:
    assert samples_for_share(0, 0.1) == samples_for_mean(0, 0.1) == inf
    assert share_seen(3, 0.1) == inf and share_seen(4, 0.1) <= 1
    assert samples_for_mean(0.1, 0.0) == 1 and isnan(samples_for_mean(0.1, float("nan")))
