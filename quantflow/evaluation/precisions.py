"""One bucket in every precision, ready to run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.export_record import BucketFiles
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.config import RuntimeConfig, TargetConfig
from quantflow.export.lowering import lower
from quantflow.graph.model_io import load_model, model_bytes
from quantflow.graph.passes.emulate_fp16 import emulate_fp16
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Runner


@dataclass(frozen=True, slots=True)
class Precisions:
    """The float32 bucket, and by name what is compared with it.

    Attributes:
        fp32: the reference.
        others: `fp16` (emulated, islands in fp32), `fp16_plain` (without them, only where there
            are any), `int8` (the lowered deploy file), `qdq` (its twin), and `qdq_unfused` (the
            twin without graph optimizations, which shows what rounding flips alone do).
    """

    fp32: Runner
    others: dict[str, Runner]


def open_precisions(
    export_dir: Path,
    bucket: BucketFiles,
    plan: PrecisionPlan,
    target: TargetConfig,
    runtime: RuntimeConfig,
) -> Precisions:
    """Read the files of a bucket and make a runner for every precision."""
    float_model = load_model(export_dir / bucket.float_twin)
    qdq = export_dir / bucket.qdq
    islands = plan.island_nodes
    others: dict[str, Runner] = {"fp16": _open(emulate_fp16(float_model, islands), runtime)}
    if islands:
        others["fp16_plain"] = _open(emulate_fp16(float_model, frozenset()), runtime)
    others["int8"] = open_int8(export_dir, bucket, plan, target, runtime)
    others["qdq"] = OnnxRuntimeRunner(qdq, runtime)
    others["qdq_unfused"] = OnnxRuntimeRunner(qdq, runtime, optimize=False)
    return Precisions(OnnxRuntimeRunner(export_dir / bucket.float_twin, runtime), others)


def open_int8(
    export_dir: Path,
    bucket: BucketFiles,
    plan: PrecisionPlan,
    target: TargetConfig,
    runtime: RuntimeConfig,
) -> Runner:
    """Read a bucket's deploy file, lower it to standard operators and make a runner for it."""
    deploy, islands = load_model(export_dir / bucket.deploy), plan.island_nodes
    lowered = lower(deploy, fp19=target.fp19_dequant, emulate_fp16=True, islands=islands)
    return _open(lowered, runtime)


def _open(model: ir.Model, runtime: RuntimeConfig) -> Runner:
    return OnnxRuntimeRunner(model_bytes(model), runtime)
