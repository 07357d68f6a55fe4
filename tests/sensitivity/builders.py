"""Small models with everything that a sweep needs, and the brute force it is compared with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.journal import Journal
from quantflow.artifacts.model_record import Group, Layer, ModelRecord
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.config import Role, RuntimeConfig
from quantflow.export.deploy import deploy_model
from quantflow.export.factors import layer_factors
from quantflow.export.lowering import lower
from quantflow.graph.edit import with_outputs
from quantflow.graph.model_io import model_bytes
from quantflow.progress import Progress, no_progress
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.workers import ALONE, Workers
from quantflow.sensitivity.assess import Assessment
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.probe import Probe
from quantflow.sensitivity.segmented_model import SegmentedModel
from quantflow.tasks.metrics import METRICS, Metric
from tests.export.builders import make_plan, make_ranges
from tests.graph.masked_blocks import Described, describe

RUNTIME = RuntimeConfig(threads=1)

Samples = Sequence[Mapping[str, np.ndarray]]
Outputs = dict[str, np.ndarray]

DISTANCES = ("cosine", "sqnr", "relative_error", "kl")
"""Metrics that compare an output with the float model's and ask nothing of it."""


@dataclass(frozen=True)
class Bench:
    """A model with measured ranges, in segments, and samples with their float outputs."""

    described: Described
    ranges: RangesRecord
    factors: tuple[LayerFactors, ...]
    model: SegmentedModel
    probe: Probe
    samples: Samples
    dims: dict[str, int]

    @property
    def record(self) -> ModelRecord:
        return self.described.record

    @property
    def static(self) -> ir.Model:
        return self.described.static


def bench(
    proto: onnx.ModelProto,
    samples: Samples,
    dims: dict[str, int],
    *,
    mask: str | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    workers: Workers = ALONE,
) -> Bench:
    """Describe a model, measure min-max ranges on the samples, and cut it into segments.

    Args:
        proto: the model, batch of any size.
        samples: arrays without batch axis.
        dims: the bucket.
        mask: its mask input.
        bounds: ranges that are given instead of measured.
        metrics: what the probe measures; the cosine by default.
        workers: who shares the samples.
    """
    described = describe(proto, dims, mask)
    ranges = make_ranges(measured(described, samples) | dict(bounds or {}))
    plan = make_plan(described.record)
    factors = layer_factors(
        described.static, described.record, ranges, plan, granularity="per-channel"
    )
    model = SegmentedModel(described.static, described.record, factors, fp19=True, runtime=RUNTIME)
    probe = probe_of(model, described.record, samples, dims, metrics, workers)
    return Bench(described, ranges, factors, model, probe, samples, dims)


def probe_of(
    model: SegmentedModel,
    record: ModelRecord,
    samples: Samples,
    dims: Mapping[str, int],
    metrics: Mapping[str, Metric] | None = None,
    workers: Workers = ALONE,
) -> Probe:
    """The samples, by default with all distances to the float model's output."""
    return Probe(
        lambda feeds: model.run(feeds, frozenset()),
        samples,
        [f"s{index}" for index in range(len(samples))],
        record,
        dims,
        metrics or {name: METRICS[name] for name in DISTANCES},
        workers,
    )


def measured(described: Described, samples: Samples) -> dict[str, tuple[float, float]]:
    """Min-max of every group's tensor over the samples."""
    tensors = [group.tensor for group in described.record.groups]
    runner = OnnxRuntimeRunner(model_bytes(with_outputs(described.model, tensors)), RUNTIME)
    found = [runner.run({k: v[None] for k, v in sample.items()}) for sample in samples]
    return {
        t: (min(float(x[t].min()) for x in found), max(float(x[t].max()) for x in found))
        for t in tensors
    }


def fresh_graph(bench: Bench, int8: Collection[str]) -> ir.Model:
    """The whole static graph, lowered, with just these groups in INT8 and no fp16 emulation."""
    layers = tuple(layer for layer in bench.record.layers if layer.group in int8)
    record = bench.record.model_copy(update={"layers": layers})
    names = {layer.name for layer in layers}
    factors = [entry for entry in bench.factors if entry.layer in names]
    deploy = deploy_model(bench.static, record, factors)
    return lower(deploy, fp19=True, emulate_fp16=False, islands=frozenset())


def brute_force(bench: Bench, int8: Collection[str]) -> list[Outputs]:
    """What a fresh graph with just these groups in INT8 makes of every sample."""
    return outputs_of(bench, fresh_graph(bench, int8))


def outputs_of(bench: Bench, model: ir.Model) -> list[Outputs]:
    """A static model's outputs for every sample, at its real positions, whatever the batches."""
    runner = OnnxRuntimeRunner(model_bytes(model), RUNTIME)
    size = bench.dims["batch"]
    found = list[Outputs]()
    for start in range(0, len(bench.samples), size):
        rows = list(bench.samples[start : start + size])
        feeds = padded(rows + [rows[-1]] * (size - len(rows)), bench.dims)
        values = runner.run(feeds)
        for row, sample in enumerate(rows):
            real = real_positions(bench, sample)
            found.append({
                info.name: values[info.name][row][real if "length" in info.shape else ...]
                for info in bench.record.outputs
            })  # fmt: skip
    return found


def padded(rows: Samples, dims: Mapping[str, int]) -> Outputs:
    """Samples as one batch, with zeros up to the bucket's length."""
    length = dims.get("length")

    def fill(array: np.ndarray) -> np.ndarray:
        if length is None:
            return array
        return np.pad(array, [(0, length - len(array)), *[(0, 0)] * (array.ndim - 1)])

    return {name: np.stack([fill(row[name]) for row in rows]) for name in rows[0]}


def real_positions(bench: Bench, sample: Mapping[str, np.ndarray]) -> np.ndarray:
    """Indices of the positions that are no padding."""
    if bench.record.mask is None:
        return np.arange(bench.dims.get("length", 0))
    return np.flatnonzero(sample[bench.record.mask.name])


def assessment(
    bench: Bench,
    *,
    metric: str = "cosine",
    halving: bool = False,
    journal: Journal | None = None,
    workers: Workers = ALONE,
    progress: Progress = no_progress,
) -> Assessment:
    """The scoring of all groups of a bench."""
    return Assessment(
        model=bench.model,
        probe=bench.probe,
        record=bench.record,
        metric=metric,
        halving=halving,
        seed=0,
        ledger=Ledger(journal, workers),
        progress=progress,
    )


def names(bench: Bench) -> list[str]:
    """Names of the groups, in graph order."""
    return [group.name for group in bench.record.groups]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine in float64, by definition."""
    a, b = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def record_of(macs: Mapping[str, int], roles: Mapping[str, Role] | None = None) -> ModelRecord:
    """A record of groups of one layer each, without a graph."""
    layers = tuple(
        Layer(
            name=name, node=name, op_type="MatMul", role=(roles or {}).get(name, "other"),
            group=name, input=f"{name}_in", weight=f"{name}_w", bias=None, bias_node=None,
            output=name, macs=size,
        )
        for name, size in macs.items()
    )  # fmt: skip
    groups = tuple(
        Group(name=x.name, tensor=x.input, role=x.role, layers=(x.name,), macs=x.macs)
        for x in layers
    )
    return ModelRecord(opset=18, inputs=(), outputs=(), layers=layers, groups=groups, padding=())


def stub(function: Any, *, higher_is_better: bool, perfect: float | None) -> Metric:
    """A metric whose value is a function of what is judged."""
    return Metric(function, higher_is_better, perfect)
