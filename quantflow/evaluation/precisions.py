"""One bucket in every precision, ready to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.export_record import BucketFiles
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.config import RuntimeConfig, TargetConfig
from quantflow.export.lowering import lower
from quantflow.graph.model_io import load_model
from quantflow.graph.passes.emulate_fp16 import emulate_fp16
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Feeds, Runner

FilePrecision = Literal["fp32", "fp16", "fp16_plain", "int8", "qdq"]
"""What the files of a bucket can be run as."""


class OnDemand:
    """A model that is opened when it first runs, so that not all precisions fill memory at once.

    Args:
        make: reads it and makes a runner.
    """

    def __init__(self, make: Callable[[], Runner]) -> None:
        self._make = make
        self._runner: Runner | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the values that `run` returns."""
        return self._opened().outputs

    def run(self, feeds: Feeds) -> dict[str, NDArray[Any]]:
        """Run once; returns every output by name."""
        return self._opened().run(feeds)

    def close(self) -> None:
        """Give the model up; it is opened again when it is to run."""
        self._runner = None

    def _opened(self) -> Runner:
        self._runner = self._runner or self._make()
        return self._runner


@dataclass(frozen=True, slots=True)
class Precisions:
    """The float32 bucket, and by name what is compared with it.

    Attributes:
        fp32: the reference.
        others: `fp16` (emulated, islands in fp32), `fp16_plain` (without them, only where there
            are any), `int8` (the lowered deploy file), `qdq` (its twin), and `qdq_unfused` (the
            twin without graph optimizations, which shows what rounding flips alone do).
    """

    fp32: OnDemand
    others: dict[str, OnDemand]


def open_precisions(
    export_dir: Path,
    bucket: BucketFiles,
    plan: PrecisionPlan,
    target: TargetConfig,
    runtime: RuntimeConfig,
) -> Precisions:
    """A runner for every precision of a bucket; its files are read when it runs."""

    def precision(name: FilePrecision, *, optimize: bool = True) -> OnDemand:
        def make() -> Runner:
            model = precision_model(name, export_dir, bucket, plan, target)
            return _open(model, runtime, optimize=optimize)

        return OnDemand(make)

    names: tuple[FilePrecision, ...] = ("fp16", "fp16_plain", "int8", "qdq")
    others = {name: precision(name) for name in names if name != "fp16_plain" or plan.island_nodes}
    others["qdq_unfused"] = precision("qdq", optimize=False)
    return Precisions(precision("fp32"), others)


def precision_model(
    name: FilePrecision,
    export_dir: Path,
    bucket: BucketFiles,
    plan: PrecisionPlan,
    target: TargetConfig,
) -> ir.Model:
    """Read the file of a bucket that a precision is made of, and make it.

    Args:
        name: `fp32`, `fp16` (emulated, islands in fp32), `fp16_plain` (without them), `int8` (the
            lowered deploy file) or `qdq` (its twin).
        export_dir, bucket: where the files are.
        plan: gives the islands.
        target: chip's section of the configuration.
    """
    if name == "int8":
        return lowered(load_model(export_dir / bucket.deploy), plan, target)
    if name == "qdq":
        return load_model(export_dir / bucket.qdq)
    exact = load_model(export_dir / bucket.float_twin)
    if name == "fp32":
        return exact
    return emulate_fp16(exact, plan.island_nodes if name == "fp16" else frozenset())


def lowered(deploy: ir.Model, plan: PrecisionPlan, target: TargetConfig) -> ir.Model:
    """A deploy model in standard operators, its float part emulated in fp16."""
    islands = plan.island_nodes
    return lower(deploy, fp19=target.fp19_dequant, emulate_fp16=True, islands=islands)


def open_int8(
    export_dir: Path,
    bucket: BucketFiles,
    plan: PrecisionPlan,
    target: TargetConfig,
    runtime: RuntimeConfig,
) -> Runner:
    """Read a bucket's deploy file, lower it to standard operators and make a runner for it."""
    return _open(precision_model("int8", export_dir, bucket, plan, target), runtime)


def _open(model: ir.Model, runtime: RuntimeConfig, *, optimize: bool = True) -> Runner:
    return OnnxRuntimeRunner(model, runtime, optimize=optimize)
