"""Shares of a loss against numpy, and the rule by which causes are called."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.artifacts.diagnosis_record import Share
from quantflow.evaluation.attribution import Evidence, called, comparable, holds, share_of

ONES = np.ones(3)


def test_a_share_is_the_ratio_of_means() -> None:
    part, whole = np.array([1.0, 2.0, 3.0]), np.array([4.0, 4.0, 4.0])
    assert share_of(part, whole, ONES, seed=0).value == pytest.approx(6 / 12)
    weights = np.array([1.0, 1.0, 6.0])
    weighted = share_of(part, whole, weights, seed=0)
    assert weighted.value == pytest.approx((1 + 2 + 18) / 32)


def test_the_interval_is_that_of_all_resamples_of_two_samples() -> None:
    part, whole = np.array([1.0, 5.0]), np.array([10.0, 6.0])
    found = share_of(part, whole, np.ones(2), seed=0)
    # The four draws of two from two are equally likely, so the ends are the least and the greatest.
    ratios = [sum(part[list(x)]) / sum(whole[list(x)]) for x in product((0, 1), repeat=2)]
    assert found.low == pytest.approx(min(ratios)) and found.high == pytest.approx(max(ratios))


@given(
    st.lists(st.floats(0.01, 10), min_size=2, max_size=20),
    st.floats(-2, 2),
)
def test_samples_that_differ_do_not_widen_the_interval(whole: list[float], share: float) -> None:
    """The same share of every sample is that share in every resample."""
    loss = np.array(whole)
    found = share_of(share * loss, loss, np.ones(len(loss)), seed=1)
    assert [found.value, found.low, found.high] == pytest.approx([share] * 3, abs=1e-12)


def test_a_loss_that_may_be_chance_has_no_interval() -> None:
    whole = np.array([-1.0, 2.0])  # a quarter of the resamples have no loss
    found = share_of(whole, whole, np.ones(2), seed=0)
    assert found.value == 1 and np.isnan(found.low) and np.isnan(found.high)
    assert not holds(found)
    assert np.isnan(share_of(whole, -np.abs(whole), np.ones(2), seed=0).value)


def test_samples_without_weight_say_nothing() -> None:
    part, whole = np.array([1.0, np.nan, 3.0]), np.array([2.0, np.nan, 6.0])
    found = share_of(part, whole, np.array([1.0, 0.0, 1.0]), seed=0)
    assert [found.value, found.low, found.high] == pytest.approx([0.5] * 3)


def test_a_broken_output_is_worse_than_any_other() -> None:
    damages = {"a": np.array([0.1, np.nan]), "b": np.array([0.5, np.inf])}
    found = comparable(damages, np.ones(2))
    assert found["a"].tolist() == [0.1, 5.0] and found["b"].tolist() == [0.5, 5.0]
    small = comparable({"a": np.array([0.001, np.nan])}, np.ones(2))
    assert small["a"].tolist() == [0.001, 1.0]


@pytest.mark.parametrize(
    ("share", "expected"),
    [((0.5, 0.21, 0.8), True), ((0.49, 0.4, 0.6), False), ((0.9, 0.2, 1.0), False),
     ((np.nan, np.nan, np.nan), False)],
)  # fmt: skip
def test_a_cause_takes_half_of_the_loss_and_surely_more_than_a_fifth(
    share: tuple[float, float, float], expected: bool
) -> None:
    value, low, high = share
    assert holds(Share(value=value, low=low, high=high)) is expected


def of(value: float) -> Share:
    return Share(value=value, low=value - 0.1, high=value + 0.1)


def test_the_order_of_causes_does_not_follow_the_size_of_shares() -> None:
    evidence = [
        Evidence("activations in float", "activations", of(1.0)),
        Evidence("weights in float", "weights", of(0.3)),
        Evidence("ranges of deployment", "data", of(0.6)),
        Evidence("minmax ranges", "ranges", of(0.9)),
    ]
    assert list(called(evidence)) == ["data", "ranges", "activations"]


def test_layers_are_to_blame_only_where_they_are_few() -> None:
    def found(count: int, of_groups: int) -> bool:
        return bool(called([Evidence("worst", "layers", of(0.9), (count, of_groups))]))

    assert found(1, 4) and found(2, 8) and not found(1, 3) and not found(4, 12)


def test_the_first_of_several_experiments_speaks_for_a_cause() -> None:
    evidence = [
        Evidence("weight scales per channel", "weights", of(0.7)),
        Evidence("weights in float", "weights", of(0.8)),
    ]
    assert called(evidence)["weights"].name == "weight scales per channel"
