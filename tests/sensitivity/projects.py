"""Projects on disk, and running their stages in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.artifacts.sweep_record import SweepRecord
from quantflow.config import load_config
from quantflow.progress import Progress, no_progress
from quantflow.stages.pipeline import STAGES, StageOutcome, run_stage
from quantflow.stages.stage import Context
from tests.graph.blocks import WIDTH
from tests.graph.masked_blocks import MASK_NAME, masked_encoder
from tests.graph.models import build, rand

CONFIG = """
[model]
onnx = "model.onnx"
[target]
buckets = [{buckets}]
[set]
samples = 12
heldout_samples = 10
evaluation_samples = 10
[set.candidates]
kind = "npz"
path = "candidates.npz"
[runtime]
threads = 1
[quantization]
estimator = "minmax"
"""

LENGTH = 6


def write_project(
    directory: Path,
    model: onnx.ModelProto,
    arrays: Mapping[str, np.ndarray],
    dims: Mapping[str, int],
    more: str = "",
) -> Path:
    """Write a model, its candidates and a configuration; returns the configuration's path."""
    directory.mkdir(parents=True, exist_ok=True)
    onnx.save(model, directory / "model.onnx")
    np.savez(directory / "candidates.npz", **dict(arrays))
    buckets = "{" + ", ".join(f"{name} = {size}" for name, size in dims.items()) + "}"
    config = directory / "quantflow.toml"
    config.write_text(CONFIG.replace("{buckets}", buckets) + more)
    return config


def encoder_project(directory: Path, blocks: int = 2, more: str = "") -> Path:
    """An encoder, with candidates of differing lengths."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, LENGTH, WIDTH)).astype(np.float32)
    mask = (np.arange(LENGTH) < rng.integers(2, LENGTH + 1, (40, 1))).astype(np.int64)
    arrays = {"x": x, MASK_NAME: mask}
    return write_project(
        directory, masked_encoder(blocks), arrays, {"batch": 2, "length": LENGTH}, more
    )


def redundant_model() -> onnx.ModelProto:
    """Two paths carry the same signal, and the larger of the two goes on.

    A wild channel that no weight looks at makes INT8 steps so wide that the path gives 0. One path
    alone is enough; without both there is nothing left.
    """
    weight = np.abs(rand(8, 8, seed=3))
    blind = np.concatenate([weight, np.zeros((1, 8), np.float32)])
    return build(
        "(float[batch,16] x) => (float[batch,8] y) { "
        "s = MatMul(x, w0) r = Relu(s) n = ReduceMax(r, last) "
        "na = Mul(n, ka) ta = Concat<axis=-1>(r, na) a = MatMul(ta, wa) "
        "nb = Mul(n, kb) tb = Concat<axis=-1>(r, nb) b = MatMul(tb, wb) "
        "m = Max(a, b) t = Sqrt(m) y = MatMul(t, w1) }",
        {
            "w0": rand(16, 8, scale=0.3), "w1": rand(8, 8, seed=4), "wa": blind, "wb": blind.copy(),
            "ka": np.float32(2000), "kb": np.float32(3000), "last": np.int64([-1]),
        },
    )  # fmt: skip


def redundant_project(directory: Path, more: str = "") -> Path:
    """The two-path model with its candidates."""
    arrays = {"x": rand(40, 16, seed=9)}
    return write_project(directory, redundant_model(), arrays, {"batch": 2}, more)


def context_of(
    config: Path, *overrides: str, progress: Progress = no_progress, force: bool = False
) -> Context:
    """What stages are given."""
    loaded = load_config(config, overrides)
    return Context(loaded, RunDirectory(loaded.run_directory), progress=progress, force=force)


def run_until(last: str, config: Path, *overrides: str, **options: Any) -> list[StageOutcome]:
    """Run the stages up to the one whose folder is `last`."""
    context = context_of(config, *overrides, **options)
    folders = [stage.folder for stage in STAGES]
    return [run_stage(context, stage) for stage in STAGES[: folders.index(last) + 1]]


def run_one(folder: str, config: Path, *overrides: str, **options: Any) -> StageOutcome:
    """Run one stage alone."""
    stage = next(stage for stage in STAGES if stage.folder == folder)
    return run_stage(context_of(config, *overrides, **options), stage)


def read_sweep(config: Path) -> tuple[PrecisionPlan, SweepRecord]:
    """The plan and the record of stage 3."""
    folder = config.parent / "run" / "30_sweep"
    plan = PrecisionPlan.read(folder / "plan.json")
    return plan, SweepRecord.read(folder / "sweep.json")


def read_model(config: Path) -> ModelRecord:
    """The record of the model whose layers are quantized."""
    optimized = config.parent / "run" / "25_optimize" / "model.json"
    plain = config.parent / "run" / "00_model" / "model.json"
    return ModelRecord.read(optimized if optimized.exists() else plain)
