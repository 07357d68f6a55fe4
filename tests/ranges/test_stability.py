"""Subset stability: the spread of random subsets, as all pairs of them show it."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from quantflow.ranges.stability import (
    extrapolated,
    stability_report,
    subset_sizes,
    subset_spreads,
)

Floats = NDArray[np.float64]


def width(low: Floats, high: Floats) -> float:
    return max(high.max(), 0.0) - min(low.min(), 0.0)


def all_pairs(low: Floats, high: Floats, size: int) -> list[float]:
    """Differences of width over all pairs of subsets without a common sample."""
    places = range(len(low))
    return [
        abs(width(low[list(a)], high[list(a)]) - width(low[list(b)], high[list(b)]))
        for a in combinations(places, size)
        for b in combinations(sorted(set(places) - set(a)), size)
    ]


def extremes(rng: np.random.Generator, samples: int) -> tuple[Floats, Floats]:
    values = rng.standard_normal((samples, 32)) * rng.uniform(0.2, 3, (samples, 1))
    return values.min(axis=1), values.max(axis=1)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_spread_is_that_of_all_pairs_of_subsets(size: int) -> None:
    low, high = extremes(np.random.default_rng(0), 9)
    differences = np.array(all_pairs(low, high, size)) / width(low, high)
    found = subset_spreads([(low, high)], [size], 4000)[0, 0]
    # Of many random pairs, about 95% of all pairs lie within the spread.
    assert np.mean(differences <= found + 1e-12) >= 0.93
    assert np.mean(differences < found - 1e-12) <= 0.97


def test_two_halves_of_a_set_differ_by_the_spread_at_most_in_95_of_100_cases() -> None:
    rng, within = np.random.default_rng(1), list[bool]()
    for _ in range(400):
        low, high = extremes(rng, 64)
        spread = subset_spreads([(low, high)], [32], 100)[0, 0]
        apart = abs(width(low[:32], high[:32]) - width(low[32:], high[32:])) / width(low, high)
        within.append(apart <= spread + 1e-12)
    assert 0.9 <= np.mean(within) <= 1


@pytest.mark.parametrize("kind", ["uniform", "normal", "gamma"])
def test_fresh_sets_keep_within_the_expected_spread_more_often_than_not(kind: str) -> None:
    # Not in 95 of 100 cases: a set cannot show what it lacks.
    rng, within = np.random.default_rng(7), list[bool]()
    draw = {
        "uniform": lambda: rng.uniform(size=64),
        "normal": lambda: np.abs(rng.normal(size=64)),
        "gamma": lambda: rng.gamma(2, size=64),
    }[kind]
    for _ in range(200):
        high, fresh = draw(), float(draw().max())
        (row,) = stability_report({"t": (0 * high, high)}, {"t": "g"}, 50).rows
        own = float(high.max())
        within.append(abs(own - fresh) / max(own, fresh) <= row.expected)
    assert 0.65 <= np.mean(within) <= 0.95


def test_every_tensor_is_compared_on_the_same_subsets() -> None:
    low, high = extremes(np.random.default_rng(2), 40)
    found = subset_spreads([(low, high), (3 * low, 3 * high), (-high, -low)], [8, 16], 60)
    np.testing.assert_allclose(found[1], found[0])
    np.testing.assert_allclose(found[2], found[0])


@settings(max_examples=60)
@given(st.integers(0, 5000))
def test_sizes_double_from_eight_to_half_of_the_samples(samples: int) -> None:
    assert subset_sizes(samples) == [8 * 2**i for i in range(20) if 8 * 2**i <= samples // 2]


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(16, 80))
def test_spreads_are_shares_and_the_same_every_time(seed: int, samples: int) -> None:
    some = {"t": extremes(np.random.default_rng(seed), samples)}
    report = stability_report(some, {"t": "g"}, 20)
    (row,) = report.rows
    assert all(0 <= spread <= 1 for spread in (*row.spreads, row.expected))
    assert report == stability_report(some, {"t": "g"}, 20)
    assert report.sizes == tuple(subset_sizes(samples)) and report.samples == samples


def test_one_sample_that_stretches_the_range_is_seen_at_every_size() -> None:
    # Whichever subset holds it is ten times as wide as the other: half of the pairs at half of 64.
    low, high = np.full(64, -1.0), np.full(64, 1.0)
    high[17] = 19
    report = stability_report({"t": (low, high)}, {"t": "layer"})
    (row,) = report.rows
    assert row.spreads == pytest.approx((0.9, 0.9, 0.9)) and row.enough is None
    assert row.expected == pytest.approx(0.9)
    (reason,) = report.reasons
    assert "layer" in reason and "90%" in reason and "more than 64" in reason


def test_equal_samples_need_no_more_than_eight() -> None:
    low, high = np.full(64, -1.0), np.full(64, 2.0)
    report = stability_report({"t": (low, high), "z": (0 * low, 0 * high)}, {"t": "a", "z": "b"})
    assert report.enough == 8 and report.reasons == ()
    assert report.median == report.largest == (0, 0, 0, 0)


def test_ranges_settle_where_values_are_bounded() -> None:
    rng = np.random.default_rng(3)
    values = rng.uniform(-1, 1, (512, 16))
    report = stability_report({"t": (values.min(1), values.max(1))}, {"t": "g"})
    (row,) = report.rows
    assert row.spreads[0] > row.spreads[-1] > row.expected
    enough = row.enough
    assert enough is not None and enough in report.sizes
    place = report.sizes.index(enough)
    assert all(x <= report.threshold for x in row.spreads[place:])
    assert place == 0 or row.spreads[place - 1] > report.threshold


def test_the_largest_and_the_median_are_over_the_tensors() -> None:
    rng = np.random.default_rng(4)
    some = {name: extremes(rng, 48) for name in "abc"}
    report = stability_report(some, {name: name for name in some})
    table = np.array([[*row.spreads, row.expected] for row in report.rows])
    assert report.largest == tuple(table.max(axis=0).tolist())
    assert report.median == tuple(np.median(table, axis=0).tolist())


@pytest.mark.parametrize("power", [-0.25, -0.5, -1.0])
def test_a_power_law_goes_on(power: float) -> None:
    sizes = [8, 16, 32]
    spreads = np.array([0.4 * size**power for size in sizes])
    assert extrapolated(sizes, spreads, 100) == pytest.approx(0.4 * 100**power)


def test_a_spread_that_grows_is_taken_to_stay() -> None:
    assert extrapolated([8, 16], np.array([0.1, 0.2]), 32) == pytest.approx(0.2)
    assert extrapolated([8], np.array([0.3]), 20) == pytest.approx(0.3)
    assert extrapolated([8, 16], np.array([0.3, 0.0]), 40) == 0


@pytest.mark.filterwarnings("error")
def test_samples_without_a_finite_value_stretch_nothing() -> None:
    low, high = extremes(np.random.default_rng(5), 32)
    empty: Any = np.arange(32) % 5 == 0
    low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
    zero = np.where(empty, 0, low), np.where(empty, 0, high)
    np.testing.assert_array_equal(
        subset_spreads([(low, high)], [8, 16], 30), subset_spreads([zero], [8, 16], 30)
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("samples", [1, 15])
def test_a_handful_of_samples_cannot_tell(samples: int) -> None:
    report = stability_report({"t": extremes(np.random.default_rng(6), samples)}, {"t": "g"})
    assert report.sizes == () and report.enough is None
    (reason,) = report.reasons
    assert "too few" in reason and str(samples) in reason


@pytest.mark.filterwarnings("error")
def test_a_model_without_tensors_has_an_empty_report() -> None:
    report = stability_report({}, {})
    assert report.rows == () and report.reasons == ()
