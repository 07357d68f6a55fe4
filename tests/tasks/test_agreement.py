"""Top-1 agreement, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.errors import QuantflowError
from quantflow.tasks.agreement import agreement, classes_of, top_classes


def test_the_class_is_the_first_highest_score_and_none_where_a_score_is_not_finite() -> None:
    scores = np.array([[0, 3, 3], [2, 1, 0], [np.nan, 1, 2], [np.inf, 1, 2]], np.float32)
    assert top_classes(scores).tolist() == [1, 0, -1, -1]


def test_one_decision_stays_or_does_not() -> None:
    assert agreement(np.array(4), np.array(4)) == 1
    assert agreement(np.array(4), np.array(3)) == 0


def test_a_sequence_counts_by_the_share_of_its_positions() -> None:
    assert agreement(np.array([1, 2, 3, 4]), np.array([1, 2, 0, 0])) == 0.5


def test_two_decisions_that_cannot_be_made_do_not_agree() -> None:
    assert agreement(np.array(-1), np.array(-1)) == 0
    assert agreement(np.array([-1, 2]), np.array([-1, 2])) == 0.5


def test_decisions_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="shapes"):
        agreement(np.zeros(3, np.int64), np.zeros(4, np.int64))


def test_decisions_are_of_the_first_output() -> None:
    first = np.eye(3, dtype=np.float32)[[1, 0, 2]]
    found = classes_of({"logits": first, "other": np.zeros(2, np.float32)})
    assert found.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    "scores", [np.float32(1), np.zeros((4, 1), np.float32), np.zeros((2, 3), np.int64)]
)
def test_an_output_that_is_no_scores_of_classes_is_refused(scores: np.ndarray) -> None:
    with pytest.raises(QuantflowError) as caught:
        classes_of({"y": np.asarray(scores)})
    assert caught.value.problems[0].code == "QF311"
