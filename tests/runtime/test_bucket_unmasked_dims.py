"""A mask speaks for the dimension that it runs along, and for no other."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.artifacts.model_record import ModelRecord, TensorInfo
from quantflow.errors import QuantflowError
from quantflow.runtime.bucket_run import fit_sample

DIMS = {"batch": 1, "length": 4, "other": 5}
RECORD = ModelRecord(
    opset=18,
    inputs=(
        TensorInfo(name="ids", dtype="int64", shape=("batch", "length")),
        TensorInfo(name="mask", dtype="int64", shape=("batch", "length"), mask=True),
        TensorInfo(name="memory", dtype="float32", shape=("batch", "other", 2)),
    ),
    outputs=(),
    layers=(),
    groups=(),
    padding=(),
)


def sample(length: int, other: int) -> dict[str, np.ndarray]:
    return {
        "ids": np.ones(length, np.int64),
        "mask": np.ones(length, np.int64),
        "memory": np.ones((other, 2), np.float32),
    }


def test_a_sample_is_padded_along_the_mask() -> None:
    fitted = fit_sample(sample(2, 5), RECORD, DIMS)
    assert fitted["mask"].tolist() == [1, 1, 0, 0] and fitted["memory"].shape == (5, 2)


def test_a_sample_that_is_short_where_nothing_marks_padding_is_refused() -> None:
    with pytest.raises(QuantflowError) as caught:
        fit_sample(sample(4, 3), RECORD, DIMS)
    (problem,) = caught.value.problems
    assert problem.code == "QF320" and "memory" in problem.what and "(3, 2)" in problem.what
