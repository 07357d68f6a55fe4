"""Running a set's samples for statistics of tensors, as stage 2 and the optimization do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.ranges_record import Split
from quantflow.artifacts.sample_set import SampleSet
from quantflow.graph.edit import with_outputs
from quantflow.ranges.collect import Collection, collect
from quantflow.ranges.fetch_batch import fetch_batch
from quantflow.ranges.views import reading_of
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.workers import shared_machine
from quantflow.stages.stage import Context


def compute_batch(context: Context, record: ModelRecord) -> int:
    """Samples per inference of the canonical model: its own number where the batch is fixed."""
    first = record.inputs[0].shape[0]
    return first if isinstance(first, int) else context.config.runtime.batch


def open_runner(context: Context, model: ir.Model) -> OnnxRuntimeRunner:
    """A session for a model, with this worker's share of the machine."""
    place = context.workers.place
    config = shared_machine(context.config.runtime, place)
    return OnnxRuntimeRunner(model, config, device=place.local_rank)


@dataclass(frozen=True, slots=True)
class TensorRunner:
    """A session that gives some of a model's tensors, and how many samples it runs at once."""

    runner: OnnxRuntimeRunner
    batch: int


def open_tensors(
    context: Context, model: ir.Model, record: ModelRecord, tensors: Sequence[str]
) -> TensorRunner:
    """A session for some of the tensors of a canonical model."""
    runner = open_runner(context, with_outputs(model, tensors))
    return TensorRunner(runner, _batch(context, model, record, tensors))


def collect_split(
    context: Context,
    opened: TensorRunner,
    record: ModelRecord,
    split: Split,
    tensors: Sequence[str],
    rows: int,
) -> Collection:
    """Statistics of some tensors on one set.

    Args:
        context: whose workers share the samples.
        opened: gives the tensors.
        record: of the model.
        split: which set.
        tensors: names of quantized tensors.
        rows: how many rows to sample of each.
    """
    samples = SampleSet(context.folder("10_set") / split)
    return collect(
        opened.runner,
        samples,
        ids=samples.ids,
        digests=samples.digests,
        tensors=tensors,
        padding={entry.tensor: entry.layout for entry in record.padding},
        mask_name=record.mask.name if record.mask else None,
        batch=opened.batch,
        rows=rows,
        readings={tensor: reading_of(record.layers_of(tensor)) for tensor in tensors},
        progress=lambda _, done, total: context.progress(f"{split} samples", done, total),
        workers=context.workers,
    )


def _batch(context: Context, model: ir.Model, record: ModelRecord, tensors: Sequence[str]) -> int:
    """Samples per inference where tensors are fetched, given the first sample and the buckets."""
    (sample,) = SampleSet(context.folder("10_set") / "calibration").first(1)
    dims = dict[str, int]()
    for entry in record.inputs:
        dims |= zip(map(str, entry.shape[1:]), sample[entry.name].shape, strict=True)
    for bucket in context.config.target.buckets:
        dims |= {name: max(size, dims.get(name, 1)) for name, size in bucket.items()}
    return fetch_batch(model, tensors, dims, compute_batch(context, record))
