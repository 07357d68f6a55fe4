"""A whole model smoothed: what is folded, what is multiplied, and what is left."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from quantflow.artifacts.optimize_record import OptimizeRecord
from quantflow.artifacts.ranges_record import RangesRecord
from tests.graph.models import assert_close, build, rand, run
from tests.sensitivity.projects import run_one, run_until, write_project

FOLDER = "25_optimize"
GAIN = np.float32([1, 1, 1, 150, 1, 1, 1, 1])


def model() -> onnx.ModelProto:
    """The input has a channel that is much larger than the rest; the first layer takes it back."""
    return build(
        "(float[batch,8] x) => (float[batch,6] y) "
        "{ a = MatMul(x, w0) t = Tanh(a) r = Add(a, t) b = MatMul(r, w1) "
        "c = MatMul(x, w2) d = Add(b, c) y = Sigmoid(d) }",
        {
            "w0": rand(8, 8, scale=0.3) / GAIN[:, None],
            "w1": rand(8, 6, seed=1),
            "w2": rand(8, 6, seed=2) / GAIN[:, None],
        },
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wild input")
    arrays = {"x": rand(40, 8, seed=9) * GAIN}
    run_until("20_ranges", write_project(folder, model(), arrays, {"batch": 4}))
    return folder


def smoothed(base: Path, to: Path, *overrides: str) -> tuple[OptimizeRecord, Path]:
    shutil.copytree(base, to / "copy")
    only = ("optimize.rounding=false", "optimize.bias_correction=false")
    run_one(FOLDER, to / "copy" / "quantflow.toml", *only, *overrides)
    folder = to / "copy" / "run" / FOLDER
    return OptimizeRecord.read(folder / "optimize.json"), folder


def test_an_input_is_divided_by_a_mul_of_its_own(base: Path, tmp_path: Path) -> None:
    record, folder = smoothed(base, tmp_path)
    assert [(x.tensor, x.how) for x in record.tensors if x.tensor == "x"] == [("x", "multiplied")]
    entry = next(x for x in record.tensors if x.tensor == "x")
    assert entry.error_after < 0.5 * entry.error_before
    multiplied = {x.tensor for x in record.tensors if x.how == "multiplied"}
    assert record.multiplied_elements == 8 * len(multiplied) and record.passes[0].kept
    found = onnx.load(folder / "model.onnx")
    added = {node.input[0]: node for node in found.graph.node if node.op_type == "Mul"}
    assert set(added) == multiplied
    mul = added["x"]
    assert not {mul.name, mul.output[0]} & {"x", "a", "c"}
    readers = {node.name for node in found.graph.node if mul.output[0] in node.input}
    assert readers == {"n_a", "n_c"}
    feeds = {"x": rand(5, 8, seed=3) * GAIN}
    assert_close(run(found, feeds), run(model(), feeds), 1e-5)
    # What is quantized is the scaled tensor, in a range that suits it.
    before = RangesRecord.read(folder.parent / "20_ranges/ranges.json").ranges
    after = RangesRecord.read(folder / "ranges.json").ranges
    assert {x.tensor for x in before} - {x.tensor for x in after} == multiplied
    new = {x.tensor for x in after} - {x.tensor for x in before}
    assert new == {node.output[0] for node in added.values()}


def test_no_mul_is_added_where_none_is_wanted(base: Path, tmp_path: Path) -> None:
    record, folder = smoothed(base, tmp_path, "optimize.multiply=false")
    assert "x" not in {x.tensor for x in record.tensors} and record.multiplied_elements == 0
    if (folder / "model.onnx").exists():
        graph = onnx.load(folder / "model.onnx").graph
        assert not [node for node in graph.node if node.op_type == "Mul"]


def test_scaled_layers_are_exported_under_their_names(base: Path, tmp_path: Path) -> None:
    _, folder = smoothed(base, tmp_path)
    config = folder.parents[1] / "quantflow.toml"
    asked = ("optimize.rounding=false", "optimize.bias_correction=false", 'plan.policy="none"')
    run_one("40_onnx", config, *asked)
    exported = onnx.load(folder.parent / "40_onnx" / "deploy_batch4.onnx").graph
    assert {"n_a", "n_b", "n_c"} <= {node.name for node in exported.node}
    quants = [node for node in exported.node if node.op_type == "AscendQuant"]
    assert len(quants) == 2  # two layers read the scaled input
