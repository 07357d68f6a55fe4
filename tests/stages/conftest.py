"""A project of two inputs whose order is not the alphabet's, and running its stages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import load_config
from quantflow.stages.pipeline import STAGES, StageOutcome, run_stage
from quantflow.stages.stage import Context

CONFIG = """
[model]
onnx = "model.onnx"
[set]
samples = 12
heldout_samples = 10
evaluation_samples = 6
[set.candidates]
kind = "npz"
path = "candidates.npz"
[plan]
policy = "none"
[target]
buckets = [{ batch = 1 }, { batch = 4 }]
[atc]
probes = false
[run]
directory = "run"
"""

WEIGHTS = {
    name: (np.random.default_rng(seed).normal(size=(16, 8)) / 4).astype(np.float32)
    for seed, name in enumerate(("wz", "wa"))
}

RunStages = Callable[..., list[StageOutcome]]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


@pytest.fixture
def run_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStages:
    """Runs the stages of some folders, without atc."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return write_project(tmp_path)


def write_project(directory: Path) -> RunStages:
    """Write the project; returns what runs the stages of some folders."""
    _write_model(directory / "model.onnx")
    rng = np.random.default_rng(7)
    samples = {name: rng.normal(size=(40, 16)).astype(np.float32) for name in ("z", "a")}
    np.savez(directory / "candidates.npz", **samples)
    path = directory / "quantflow.toml"
    path.write_text(CONFIG)
    run = RunDirectory(directory / "run")

    def run_them(*folders: str, change: str = "", force: bool = False) -> list[StageOutcome]:
        loaded = load_config(path, [change] if change else [])
        context = Context(loaded, run, force=force)
        return [run_stage(context, x) for x in STAGES if not folders or x.folder in folders]

    return run_them


def _write_model(path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["z", "wz"], ["mz"], name="of_z"),
        helper.make_node("MatMul", ["a", "wa"], ["ma"], name="of_a"),
        helper.make_node("Add", ["mz", "ma"], ["y"], name="sum"),
    ]
    graph = helper.make_graph(
        nodes,
        "two inputs",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", 16]) for x in ("z", "a")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])],
        [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
