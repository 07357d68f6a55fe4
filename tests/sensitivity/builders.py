"""Small models with everything that a sweep needs, and the brute force it is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.config import RuntimeConfig
from quantflow.export.deploy import deploy_model
from quantflow.export.factors import layer_factors
from quantflow.export.lowering import lower
from quantflow.graph.edit import with_outputs
from quantflow.graph.model_io import model_bytes
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.sensitivity.probe import Probe, make_probe
from quantflow.sensitivity.segmented_model import SegmentedModel
from tests.export.builders import make_plan, make_ranges
from tests.graph.masked_blocks import Described, describe

RUNTIME = RuntimeConfig(threads=1)

Samples = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Bench:
    """A model with measured ranges, in segments, and samples with their float outputs."""

    described: Described
    ranges: RangesRecord
    factors: tuple[LayerFactors, ...]
    model: SegmentedModel
    probe: Probe

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
) -> Bench:
    """Describe a model, measure min-max ranges on the samples, and cut it into segments.

    Args:
        proto: the model, batch of any size.
        samples: arrays without batch axis, all of the bucket's shape.
        dims: the bucket.
        mask: its mask input.
        bounds: ranges that are given instead of measured.
    """
    described = describe(proto, dims, mask)
    ranges = make_ranges(measured(described, samples) | dict(bounds or {}))
    plan = make_plan(described.record)
    factors = layer_factors(
        described.static, described.record, ranges, plan, granularity="per-channel"
    )
    model = SegmentedModel(described.static, described.record, factors, fp19=True, runtime=RUNTIME)
    probe = make_probe(model, samples, described.record, dims)
    return Bench(described, ranges, factors, model, probe)


def measured(described: Described, samples: Samples) -> dict[str, tuple[float, float]]:
    """Min-max of every group's tensor over the samples."""
    tensors = [group.tensor for group in described.record.groups]
    runner = OnnxRuntimeRunner(model_bytes(with_outputs(described.model, tensors)), RUNTIME)
    found = [runner.run({k: v[None] for k, v in sample.items()}) for sample in samples]
    return {
        t: (min(float(x[t].min()) for x in found), max(float(x[t].max()) for x in found))
        for t in tensors
    }


def brute_force(
    bench: Bench, int8: frozenset[str], fp19: bool = True
) -> list[dict[str, np.ndarray]]:
    """Outputs of a fresh static graph in which just these groups are INT8, for every batch."""
    layers = tuple(layer for layer in bench.record.layers if layer.group in int8)
    record = bench.record.model_copy(update={"layers": layers})
    names = {layer.name for layer in layers}
    factors = [entry for entry in bench.factors if entry.layer in names]
    deploy = deploy_model(bench.static, record, factors)
    lowered = lower(deploy, fp19=True, emulate_fp16=False, islands=frozenset())
    runner = OnnxRuntimeRunner(model_bytes(lowered), RUNTIME)
    return [runner.run(batch.feeds) for batch in bench.probe.batches]


def names(bench: Bench) -> list[str]:
    """Names of the groups, in graph order."""
    return [group.name for group in bench.record.groups]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine in float64, by definition."""
    a, b = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))
