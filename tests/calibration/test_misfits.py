"""Samples that do not fit the model are all named in one error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.model_record import TensorInfo
from quantflow.calibration.draw import Pool, draw, in_order
from quantflow.calibration.preprocess import Preprocessor
from quantflow.errors import QuantflowError, fail

_INPUT = TensorInfo(name="x", dtype="float32", shape=("batch", 2))


def _refused(records: Sequence[Any], count: int, **options: Any) -> QuantflowError:
    def convert(record: Mapping[str, Any], sample: str) -> Mapping[str, Any]:
        if "bad" in record:
            fail("QF304", f"{sample} is bad", where=sample)
        return record

    pool = Pool("candidates", records, in_order(len(records)), "text")
    with pytest.raises(QuantflowError) as caught:
        draw(pool, count, Preprocessor((_INPUT,), convert), **options)
    return caught.value


def _records(count: int, wrong: Mapping[int, Any]) -> list[Any]:
    return [wrong.get(i, {"x": np.full(2, i, np.float32)}) for i in range(count)]


@pytest.mark.parametrize("leave", [True, False])
def test_all_samples_of_wrong_shape_or_dtype_are_named_at_once(leave: bool) -> None:
    wrong = {3: {"x": np.zeros(3, np.float32)}, 4: {"bad": 1}, 30: {"x": np.array(["a", "b"])}}
    error = _refused(_records(40, wrong), 40, leave_unfit=leave)
    (problem,) = error.problems
    assert problem.code == "QF306" and problem.where == "candidates[3]"
    assert "needs shape (2)" in problem.what
    assert problem.what.endswith("2 samples do not fit the model: candidates[3], candidates[30]")


def test_no_more_than_ten_are_named() -> None:
    wrong = {i: {"x": np.zeros(3, np.float32)} for i in range(2, 90)}
    (problem,) = _refused(_records(100, wrong), 100).problems
    named = ", ".join(f"candidates[{i}]" for i in range(2, 12))
    assert problem.what.endswith(f"more than 10 samples do not fit the model: {named}, ...")


def test_one_alone_and_other_errors_are_said_as_they_are() -> None:
    (problem,) = _refused(_records(20, {5: {"x": np.zeros(3, np.float32)}}), 20).problems
    assert problem.what.startswith("candidates[5]: input 'x'") and ";" not in problem.what
    (problem,) = _refused(_records(20, {5: {"bad": 1}, 6: {"bad": 1}}), 20).problems
    assert (problem.code, problem.what) == ("QF304", "candidates[5] is bad")


def test_samples_that_are_not_drawn_are_not_looked_at() -> None:
    wrong = {i: {"x": np.zeros(3, np.float32)} for i in (1, 9)}
    (problem,) = _refused(_records(20, wrong), 5).problems
    assert problem.where == "candidates[1]" and "candidates[9]" not in problem.what
