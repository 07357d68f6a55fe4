"""A label's rank among the classes is its place in a stable sort by score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.errors import QuantflowError
from quantflow.tasks.classification import class_count, label_rank


@given(st.lists(st.integers(0, 4), min_size=2, max_size=12), st.data())
def test_it_is_the_place_in_a_sort_that_keeps_equals_in_order(scores: list[int], data: Any) -> None:
    label = data.draw(st.integers(0, len(scores) - 1))
    order = sorted(range(len(scores)), key=lambda i: -scores[i])  # Python's sort is stable
    outputs = {"logits": np.array(scores, np.float32), "other": np.zeros((3, 3), np.float32)}
    assert label_rank(outputs, label) == order.index(label)
    assert (label_rank(outputs, label) == 0) == (np.argmax(scores) == label)
    assert class_count(outputs) == len(scores)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_decide_nothing(bad: float) -> None:
    assert label_rank({"y": np.array([bad, 1, 2], np.float32)}, 0) == np.inf
    assert label_rank({"y": np.array([bad, 1, 2], np.float32)}, 2) == np.inf


@pytest.mark.parametrize(
    ("output", "label", "code", "said"),
    [
        (np.zeros((7, 3), np.float32), 0, "QF311", "several decisions"),
        (np.zeros(1, np.float32), 0, "QF311", "(1,)"),
        (np.float32(0), 0, "QF311", "()"),
        (np.zeros(4, np.int64), 0, "QF311", "int64"),
        (np.zeros(4, np.float32), 4, "QF316", "label 4 is none of the model's 4 classes"),
    ],
)
def test_what_is_no_decision_among_classes_is_refused(
    output: Any, label: int, code: str, said: str
) -> None:
    with pytest.raises(QuantflowError) as caught:
        label_rank({"y": np.asarray(output)}, label)
    (problem,) = caught.value.problems
    assert problem.code == code and said in problem.what
