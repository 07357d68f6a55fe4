"""The bootstrap of many rows at once is the bootstrap of each, on the same draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from quantflow.numerics.resample import rank_rows, resampled_means, spearman


def draws(count: int, seed: int, resamples: int) -> list[np.ndarray]:
    """The indices that each resample holds, some of them several times."""
    times = np.random.default_rng(seed).multinomial(count, [1 / count] * count, size=resamples)
    return [np.repeat(np.arange(count), row) for row in times]


@settings(max_examples=30)
@given(
    st.integers(1, 5), st.integers(1, 12), st.floats(0, 0.6), st.integers(0, 2**32 - 1)
)  # fmt: skip
def test_means_are_those_of_a_loop_over_the_draws(
    rows: int, columns: int, missing: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, columns))
    values[rng.random(values.shape) < missing] = np.nan
    found = resampled_means(values, seed=seed, resamples=40)
    for mean, draw in zip(found, draws(columns, seed, 40), strict=True):
        for row, value in zip(values, mean, strict=True):
            known = [x for x in row[draw] if not np.isnan(x)]
            expected = sum(known) / len(known) if known else np.nan
            assert value == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)


def test_every_resample_has_as_many_units_as_there_are() -> None:
    assert {len(draw) for draw in draws(7, 3, 50)} == {7}
    ones = resampled_means(np.ones((2, 7)), seed=3, resamples=50)
    np.testing.assert_array_equal(ones, np.ones((50, 2)))


def test_the_interval_of_a_row_is_that_of_scipy() -> None:
    values = np.random.default_rng(0).exponential(size=120)
    means = resampled_means(values[None], seed=0, resamples=4000)[:, 0]
    low, high = np.quantile(means, [0.025, 0.975])
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    width = expected.high - expected.low
    assert low == pytest.approx(expected.low, abs=0.1 * width)
    assert high == pytest.approx(expected.high, abs=0.1 * width)


def test_rows_see_the_same_resamples_so_that_what_they_share_cancels() -> None:
    shared = np.random.default_rng(0).normal(size=30) * 100
    means = resampled_means(np.stack([shared, shared + 0.25]), seed=0)
    assert np.ptp(means[:, 0]) > 10
    np.testing.assert_allclose(means[:, 1] - means[:, 0], 0.25, atol=1e-9)


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not() -> None:
    values = np.random.default_rng(0).normal(size=(3, 9))
    first = resampled_means(values, seed=5)
    assert first.shape == (1000, 3)
    assert first.tobytes() == resampled_means(values, seed=5).tobytes()
    assert first.tobytes() != resampled_means(values, seed=6).tobytes()


def test_one_unit_has_no_spread_and_a_row_without_any_has_no_mean() -> None:
    with np.errstate(all="raise"):
        found = resampled_means(np.array([[2.0], [np.nan]]), seed=0, resamples=10)
    np.testing.assert_array_equal(found, [[2.0, np.nan]] * 10)


@settings(max_examples=50)
@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_places_are_scipys_ordinal_ranks_from_the_largest(
    columns: int, rows: int, seed: int
) -> None:
    values = np.random.default_rng(seed).integers(0, 4, (rows, columns)).astype(np.float64)
    expected = stats.rankdata(-values, method="ordinal", axis=1) - 1
    np.testing.assert_array_equal(rank_rows(values), expected)


@settings(max_examples=50)
@given(st.integers(2, 9), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_without_ties_the_correlation_is_scipys_spearman(
    columns: int, rows: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(rows, columns)), rng.normal(size=columns)
    expected = [stats.spearmanr(row, b).statistic for row in a]
    np.testing.assert_allclose(spearman(a, b), expected, atol=1e-12)
    np.testing.assert_allclose(spearman(b, a), expected, atol=1e-12)


def test_the_correlation_is_one_for_the_order_itself_and_minus_one_for_its_reverse() -> None:
    a = np.array([3.0, -1.0, 10.0, 0.5])
    assert spearman(a, np.exp(a)) == pytest.approx([1.0])
    assert spearman(a, -a) == pytest.approx([-1.0])
    assert np.isnan(spearman(np.ones(1), np.ones(1))).all()
