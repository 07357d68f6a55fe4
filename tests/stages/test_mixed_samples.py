"""A model that computes over the batch is refused before anything is measured on it."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from quantflow.errors import QuantflowError

from .conftest import RunStages


def _center(path: Path) -> None:
    """Take the mean over the batch off the output."""
    model = onnx.load(path)
    model.graph.node[-1].output[0] = "s"
    model.graph.node.extend(
        [
            onnx.helper.make_node("ReduceMean", ["s"], ["mean"], name="mean", axes=[0]),
            onnx.helper.make_node("Sub", ["s", "mean"], ["y"], name="center"),
        ]
    )
    onnx.save(model, path)


def test_a_mean_over_the_batch_is_refused_unless_batches_are_of_one(
    run_stages: RunStages, tmp_path: Path
) -> None:
    _center(tmp_path / "model.onnx")
    run_stages("00_model")
    with pytest.raises(QuantflowError, match="QF214 output 'y' of a sample changes"):
        run_stages("10_set")
    run_stages("10_set", change="runtime.batch=1")
