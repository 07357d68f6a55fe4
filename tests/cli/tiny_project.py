"""A model of three MatMuls as an ONNX file, samples for it, and a configuration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CONFIG = """
[run]
directory = "run"
[model]
onnx = "model.onnx"
[set]
samples = 12
heldout_samples = 10
evaluation_samples = 10
[set.candidates]
kind = "npz"
path = "candidates.npz"
"""


def write_model(path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = ((16, 32), (32, 32), (32, 8))
    weights = [rng.normal(size=shape).astype(np.float32) / 6 for shape in shapes]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a0"], name="first"),
        helper.make_node("Relu", ["a0"], ["r0"], name="relu"),
        helper.make_node("MatMul", ["r0", "w1"], ["a1"], name="second"),
        helper.make_node("Tanh", ["a1"], ["r1"], name="tanh"),
        helper.make_node("MatMul", ["r1", "w2"], ["y"], name="head"),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])],
        [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


DEPLOYMENT = """
[set.deployment]
kind = "npz"
path = "deployment.npz"
"""


def add_deployment(config: Path, *, scale: float) -> None:
    """Give the project production samples: the candidates' distribution times `scale`."""
    samples = np.random.default_rng(2).normal(size=(300, 16)).astype(np.float32)
    np.savez(config.parent / "deployment.npz", x=samples * np.float32(scale))
    config.write_text(config.read_text() + DEPLOYMENT)


def write_project(directory: Path) -> Path:
    """Write the project and return its configuration."""
    write_model(directory / "model.onnx")
    samples = np.random.default_rng(1).normal(size=(40, 16)).astype(np.float32)
    np.savez(directory / "candidates.npz", x=samples)
    config = directory / "quantflow.toml"
    config.write_text(CONFIG)
    return config
