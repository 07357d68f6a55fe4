"""An encoder of several blocks, exported, and deploy models of it with a planted fault."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from quantflow.artifacts.export_record import BucketFiles, ExportRecord
from quantflow.artifacts.side_by_side import SideBySide
from quantflow.graph.edit import give_constant
from quantflow.graph.model_io import load_model, save_model
from quantflow.stages.side_by_side import Asked, compare_pair
from tests.sensitivity.projects import context_of, encoder_project, run_until

PLAIN = """
[plan]
policy = "none"
[optimize]
shift = false
smoothing = false
rounding = false
bias_correction = false
"""


def export_encoder(directory: Path, blocks: int = 3) -> Path:
    """Run a project up to the export; returns its configuration."""
    config = encoder_project(directory, blocks, more=PLAIN)
    run_until("40_onnx", config)
    return config


def bucket_of(config: Path) -> tuple[Path, BucketFiles]:
    """The folder of the exported files, and the bucket's."""
    folder = config.parent / "run" / "40_onnx"
    return folder, ExportRecord.read(folder / "export.json").buckets[0]


def deploy_of(config: Path) -> ir.Model:
    """The deploy model, to be spoiled."""
    folder, bucket = bucket_of(config)
    return load_model(folder / bucket.deploy)


def float_of(config: Path) -> ir.Model:
    """The float twin, to be spoiled."""
    folder, bucket = bucket_of(config)
    return load_model(folder / bucket.float_twin)


def node_called(model: ir.Model, name: str) -> ir.Node:
    """The node of a name."""
    return next(node for node in model.graph if node.name == name)


def array_of(node: ir.Node, index: int) -> np.ndarray:
    """A constant that a node reads."""
    value = node.inputs[index]
    assert value is not None and value.const_value is not None
    return np.array(value.const_value.numpy())


def give_array(node: ir.Node, index: int, array: np.ndarray) -> None:
    """Let a node alone read another constant."""
    give_constant(node, index, ir.tensor(array, name=f"{node.name}/planted"))


def compare(config: Path, reference: str, other: str | ir.Model, **asked: object) -> SideBySide:
    """Compare two sides; a model is written to a file first."""
    if isinstance(other, ir.Model):
        path = config.parent / "planted.onnx"
        save_model(other, path)
        other = str(path)
    return compare_pair(context_of(config), reference, other, Asked(**asked))  # type: ignore[arg-type]
