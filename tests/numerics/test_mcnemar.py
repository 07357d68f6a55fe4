"""McNemar's exact test against its definition and published values."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from quantflow.numerics.mcnemar import discordant_counts, mcnemar_p


def _by_enumeration(lost: int, gained: int) -> float:
    """Share of all ways that the discordant samples fall that are as uneven, or more."""
    count, uneven = lost + gained, abs(lost - gained)
    ways = list(product((0, 1), repeat=count))
    return sum(abs(count - 2 * sum(way)) >= uneven for way in ways) / len(ways)


@pytest.mark.parametrize("count", range(11))
def test_it_is_the_share_of_outcomes_as_uneven_as_this_one(count: int) -> None:
    for lost in range(count + 1):
        expected = _by_enumeration(lost, count - lost)
        assert mcnemar_p(lost, count - lost) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("lost", "gained", "published"),
    [
        (7, 1, 0.070),  # Bentur et al. 2009, in Fagerland, Lydersen and Laake 2013
        (16, 6, 0.052),  # Cavo et al. 2012, the same: 2 (1 + 22 + ... + 74613) / 2^22
        (0, 5, 0.0625),
        (0, 6, 0.03125),
    ],
)
def test_it_gives_published_values(lost: int, gained: int, published: float) -> None:
    assert mcnemar_p(lost, gained) == pytest.approx(published, abs=6e-4)


@given(st.integers(0, 400), st.integers(0, 400))
def test_it_is_scipys_binomial_test_and_takes_no_side(lost: int, gained: int) -> None:
    expected = stats.binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
    assert mcnemar_p(lost, gained) == pytest.approx(expected, rel=1e-9)
    assert mcnemar_p(gained, lost) == mcnemar_p(lost, gained)


@given(st.integers(0, 200), st.integers(1, 200))
def test_one_more_on_the_larger_side_is_stronger_evidence(gained: int, more: int) -> None:
    lost = gained + more
    assert mcnemar_p(lost + 1, gained) <= mcnemar_p(lost, gained) <= 1


def test_many_samples_are_no_overflow() -> None:
    assert mcnemar_p(30_000, 30_000) == 1
    assert mcnemar_p(5_000, 0) == 0.0  # 2^-4999
    assert mcnemar_p(60, 40) == pytest.approx(2 * sum(comb(100, k) for k in range(41)) / 2**100)


def test_samples_that_one_model_alone_gets_right_are_counted() -> None:
    model = np.array([1, 1, 0, 0, 0, 1], bool)
    baseline = np.array([1, 0, 1, 1, 0, 1], bool)
    assert discordant_counts(model, baseline) == (2, 1)
    assert discordant_counts(baseline, model) == (1, 2)
    assert discordant_counts(model.astype(float), baseline.astype(float)) == (2, 1)
    with pytest.raises(ValueError, match="same samples"):
        discordant_counts(model, baseline[:-1])
