"""A float16 model through the stages: float32 inside, float16 at the boundary of every file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import load_config
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.stages.pipeline import STAGES, run_stage
from quantflow.stages.stage import Context

CONFIG = """
[model]
onnx = "model.onnx"
[set]
samples = 12
heldout_samples = 10
evaluation_samples = 10
[set.candidates]
kind = "npz"
path = "candidates.npz"
[plan]
policy = "none"
[target]
buckets = [{ batch = 2 }]
[run]
directory = "run"
"""


def _write_model(path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = {"w0": (16, 32), "c": (32,), "w1": (32, 8)}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["m"], name="first"),
        helper.make_node("Add", ["m", "c"], ["a"], name="bias"),
        helper.make_node("Relu", ["a"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "w1"], ["y"], name="head"),
    ]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["batch", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["batch", 8])],
        [
            numpy_helper.from_array((rng.normal(size=shape) / 5).astype(np.float16), name)
            for name, shape in weights.items()
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


def test_the_boundary_of_a_float16_model_is_float16_in_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    _write_model(tmp_path / "model.onnx")
    x = np.random.default_rng(1).normal(size=(40, 16)).astype(np.float16)
    np.savez(tmp_path / "candidates.npz", x=x)
    (tmp_path / "quantflow.toml").write_text(CONFIG)
    run = RunDirectory(tmp_path / "run")
    context = Context(load_config(tmp_path / "quantflow.toml", []), run)
    for stage in STAGES:
        run_stage(context, stage)
    export = ExportRecord.read(run.folder("40_onnx") / "export.json")
    (bucket,) = export.buckets
    assert [layer.precision for layer in export.layers] == ["int8", "int8"]
    for name in (bucket.deploy, bucket.float_twin, bucket.qdq):
        graph = onnx.load(run.folder("40_onnx") / name).graph
        ends = (*graph.input, *graph.output)
        assert [v.type.tensor_type.elem_type for v in ends] == [TensorProto.FLOAT16] * 2
        assert not any(t.data_type == TensorProto.FLOAT16 for t in graph.initializer)
    original = OnnxRuntimeRunner(tmp_path / "model.onnx").run({"x": x[:2]})["y"]
    twin = OnnxRuntimeRunner(run.folder("40_onnx") / bucket.float_twin).run({"x": x[:2]})["y"]
    assert twin.dtype == np.float16 and np.allclose(twin, original, atol=2e-3)
    close = Comparison.read(run.folder("45_compare") / "comparison.json").fidelity
    assert close["int8"].cosine_mean > 0.99 and close["fp16"].cosine_mean > 0.99999
