"""A model that mixes the samples of a batch is told from one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quantflow.artifacts.model_record import TensorInfo
from quantflow.errors import QuantflowError
from quantflow.runtime.batch_mixing import check_mixing

OUTPUTS = [
    TensorInfo(name="y", dtype="float32", shape=("batch", 5)),
    TensorInfo(name="n", dtype="int64", shape=("batch",)),
]
SAMPLE, OTHER = ({"x": x} for x in np.random.default_rng(0).normal(size=(2, 5)).astype("f4"))


class _Runner:
    outputs = ("y", "n")

    def __init__(self, kind: str) -> None:
        self.kind, self.rng = kind, np.random.default_rng(0)

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        x = feeds["x"]
        y = {
            "apart": x * 2,
            "mean": x - x.mean(0),  # zero for a sample among copies of itself
            "norm": x / np.linalg.norm(x),
            "chance": x + self.rng.normal(size=x.shape),
            "rounding": x * (1 + 1e-7 * x[-1, 0]),
            "nothing": 1e-9 * (x - x.mean(0)),
            "infinite": np.where(x > 0, np.inf, x),
        }[self.kind]
        return {"y": y.astype(np.float32), "n": np.argmax(x, 1)}


@pytest.mark.parametrize("kind", ["mean", "norm", "chance"])
@pytest.mark.parametrize("size", [2, 8])
def test_outputs_that_change_with_the_company_are_refused(kind: str, size: int) -> None:
    with pytest.raises(QuantflowError) as caught:
        check_mixing(_Runner(kind), SAMPLE, OTHER, size, OUTPUTS)
    (problem,) = caught.value.problems
    assert problem.code == "QF214" and "'y'" in problem.what and "runtime.batch = 1" in problem.fix


@pytest.mark.parametrize("kind", ["apart", "rounding", "nothing", "infinite"])
def test_what_changes_by_rounding_alone_passes(kind: str) -> None:
    check_mixing(_Runner(kind), SAMPLE, OTHER, 4, OUTPUTS)
