"""Top-1 agreement, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.errors import QuantflowError
from quantflow.tasks.agreement import Decisions, agreement_score, agreements, top_classes


def test_the_class_is_the_first_highest_score_and_none_where_a_score_is_not_finite() -> None:
    scores = np.array([[0, 3, 3], [2, 1, 0], [np.nan, 1, 2], [np.inf, 1, 2]], np.float32)
    assert top_classes(scores).tolist() == [1, 0, -1, -1]


def test_agreement_is_the_share_of_samples_whose_class_stays() -> None:
    reference, other = np.array([4, 4, 0, 7]), np.array([4, 3, 0, 7])
    value, low, high = agreement_score(reference, other, seed=0)
    assert value == 0.75
    assert 0 <= low < value < high <= 1


def test_a_sequence_counts_by_the_share_of_its_positions() -> None:
    reference = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    other = np.array([[1, 2, 0, 0], [5, 6, 7, 8]])
    assert agreements(reference, other).tolist() == [0.5, 1.0]


def test_two_decisions_that_cannot_be_made_do_not_agree() -> None:
    assert agreements(np.array([-1, 2]), np.array([-1, 2])).tolist() == [0.0, 1.0]


def test_decisions_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="shapes"):
        agreements(np.zeros((2, 3), np.int64), np.zeros((2, 4), np.int64))


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(1, 60), st.integers(0, 99))
def test_the_interval_holds_the_score_and_shrinks_to_it_without_disagreement(
    wrong: int, right: int, seed: int
) -> None:
    reference = np.arange(wrong + right)
    other = np.where(reference < wrong, reference + 1, reference)
    value, low, high = agreement_score(reference, other, seed=seed)
    assert value == pytest.approx(right / (wrong + right))
    assert low <= value <= high
    if not wrong:
        assert (low, high) == (1.0, 1.0)


def test_decisions_are_of_the_first_output_in_the_order_of_the_set() -> None:
    seen = Decisions()
    for index in (1, 0, 2):
        first = np.eye(3, dtype=np.float32)[index]
        seen.add(index, {}, {"logits": first, "other": np.zeros(2, np.float32)})
    assert [int(x) for x in seen.classes] == [0, 1, 2]


@pytest.mark.parametrize(
    "scores", [np.float32(1), np.zeros((4, 1), np.float32), np.zeros((2, 3), np.int64)]
)
def test_an_output_that_is_no_scores_of_classes_is_refused(scores: np.ndarray) -> None:
    with pytest.raises(QuantflowError) as caught:
        Decisions().add(0, {}, {"y": np.asarray(scores)})
    assert caught.value.problems[0].code == "QF311"
