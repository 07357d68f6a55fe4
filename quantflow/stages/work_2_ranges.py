"""The work of stage 2: histograms, ranges, coverage, clipping and what fp16 cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.artifacts.ranges_record import (
    ClippingReport,
    ClippingRow,
    Fp16Report,
    RangesRecord,
    Split,
    TensorRange,
)
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.stability_record import StabilityReport
from quantflow.artifacts.weight_file import array_of
from quantflow.calibration.features.profile_tensors import tensors_of
from quantflow.calibration.profile.profile_file import load_profile
from quantflow.graph.edit import constant, values_by_name, with_outputs
from quantflow.graph.layer_settings import layer_settings
from quantflow.graph.model_io import load_model
from quantflow.graph.quantized.settle import given_params
from quantflow.ranges.channel_file import save_channel_absmax
from quantflow.ranges.choose_ranges import WeightOf, choose_ranges
from quantflow.ranges.clipping_csv import clipping_csv
from quantflow.ranges.collect import Collection, collect
from quantflow.ranges.coverage import coverage_of
from quantflow.ranges.fetch_batch import fetch_batch
from quantflow.ranges.fp16_safety import find_islands, measure_fp16
from quantflow.ranges.histogram_file import save_histograms
from quantflow.ranges.stability import stability_report
from quantflow.ranges.views import reading_of
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.workers import shared_machine
from quantflow.stages.stage import Context

FP16_SAMPLES = 16
"""Calibration samples that every float tensor is measured on."""

SAMPLED_ROWS = 256
"""Rows of a calibration tensor that candidates are judged on; with 128, ranges got worse."""

SPLITS: tuple[Split, ...] = ("calibration", "heldout")


@dataclass(frozen=True, slots=True)
class Measured:
    """What all workers found together.

    Attributes:
        record: the model.
        seen: statistics of each split; from a profile, the second one has no ids.
        ranges: of every quantized tensor.
        rows: what every candidate would clip.
        fp16: what fp16 cannot hold.
    """

    record: ModelRecord
    seen: dict[Split, Collection]
    ranges: list[TensorRange]
    rows: list[ClippingRow]
    fp16: Fp16Report


def work(context: Context, folder: Path) -> None:
    """Write histograms, ranges, coverage, stability, the clipping report and the fp16 report."""
    found = measure(context)
    save_histograms(
        folder / "histograms.safetensors",
        {
            split: {name: tensor.histogram for name, tensor in collection.tensors.items()}
            for split, collection in found.seen.items()
        },
    )
    save_channel_absmax(
        folder / "channel_absmax.safetensors",
        {
            split: {name: tensor.channel_absmax for name, tensor in collection.tensors.items()}
            for split, collection in found.seen.items()
        },
    )
    _coverage(found.record, found.seen, found.ranges).write(folder / "coverage.json")
    _stability(found.record, found.seen["calibration"]).write(folder / "stability.json")
    RangesRecord(
        ranges=tuple(found.ranges),
        nonfinite=tuple(x for split in SPLITS for x in found.seen[split].nonfinite(split)),
    ).write(folder / "ranges.json")
    report = ClippingReport(rows=tuple(found.rows))
    report.write(folder / "clipping.json")
    write_atomically(folder / "clipping.csv", clipping_csv(report).encode())
    found.fp16.write(folder / "fp16.json")


def measure(context: Context) -> Measured:
    """Run the samples and choose ranges, shared out to all workers; every one gets the same."""
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    model = load_model(context.folder("00_model") / "model.onnx")
    settings = layer_settings(record, context.config.quantization)
    context.workers.connect(context.config.runtime.provider)
    seen = _collect(context, model, record)
    ranges, rows = choose_ranges(
        record,
        _weights(model),
        seen,
        settings,
        given=given_params(record),
        progress=context.progress,
        workers=context.workers,
    )
    return Measured(record, seen, ranges, rows, _fp16(context, model, record))


def compute_batch(context: Context, record: ModelRecord) -> int:
    """Samples per inference of the canonical model: its own number where the batch is fixed."""
    first = record.inputs[0].shape[0]
    return first if isinstance(first, int) else context.config.runtime.batch


def _collect(context: Context, model: ir.Model, record: ModelRecord) -> dict[Split, Collection]:
    tensors, batch = record.tensors, _fetch_batch(context, model, record)
    runner = _runner(context, with_outputs(model, tensors))
    profiled = _profiled(context, tensors)
    collections = dict[Split, Collection]()
    for split in SPLITS:
        if split == "heldout" and profiled is not None:
            collections[split] = profiled
            continue
        samples = SampleSet(context.folder("10_set") / split)
        collections[split] = collect(
            runner,
            samples,
            ids=samples.ids,
            digests=samples.digests,
            tensors=tensors,
            padding={entry.tensor: entry.layout for entry in record.padding},
            mask_name=record.mask.name if record.mask else None,
            batch=batch,
            rows=SAMPLED_ROWS if split == "calibration" else 0,
            readings={tensor: reading_of(record.layers_of(tensor)) for tensor in tensors},
            progress=lambda _, done, total, split=split: context.progress(
                f"{split} samples", done, total
            ),
            workers=context.workers,
        )
    return collections


def _profiled(context: Context, tensors: Sequence[str]) -> Collection | None:
    """What the profile that stands in for deployment holds of the tensors; None without one."""
    if context.config.set.profile is None:
        return None
    profile = load_profile(context.folder("10_set") / "profile.safetensors")
    return tensors_of(profile, context.model_digest, tensors)


def _fetch_batch(context: Context, model: ir.Model, record: ModelRecord) -> int:
    """Samples per inference where tensors are fetched, given the first sample and the buckets."""
    (sample,) = SampleSet(context.folder("10_set") / "calibration").first(1)
    dims = dict[str, int]()
    for entry in record.inputs:
        dims |= zip(map(str, entry.shape[1:]), sample[entry.name].shape, strict=True)
    for bucket in context.config.target.buckets:
        dims |= {name: max(size, dims.get(name, 1)) for name, size in bucket.items()}
    return fetch_batch(model, record.tensors, dims, compute_batch(context, record))


def _runner(context: Context, model: ir.Model) -> OnnxRuntimeRunner:
    place = context.workers.place
    config = shared_machine(context.config.runtime, place)
    return OnnxRuntimeRunner(model, config, device=place.local_rank)


def _weights(model: ir.Model) -> WeightOf:
    values = values_by_name(model)

    def of(layer: Layer) -> NDArray[np.float32]:
        weight = constant(values[layer.weight])
        assert weight is not None
        return array_of(weight)

    return of


def _coverage(
    record: ModelRecord, seen: dict[Split, Collection], ranges: list[TensorRange]
) -> CoverageReport:
    calibration = seen["calibration"]
    histograms = {name: tensor.histogram for name, tensor in calibration.tensors.items()}
    count = len(calibration.ids)
    return coverage_of(ranges, record.group_of, histograms, count, seen["heldout"])


def _stability(record: ModelRecord, calibration: Collection) -> StabilityReport:
    return stability_report(
        {name: (seen.sample_low, seen.sample_high) for name, seen in calibration.tensors.items()},
        {name: record.group_of(name) for name in calibration.tensors},
    )


def _fp16(context: Context, model: ir.Model, record: ModelRecord) -> Fp16Report:
    samples = SampleSet(context.folder("10_set") / "calibration")
    count = min(FP16_SAMPLES, len(samples))
    tensors = measure_fp16(
        model,
        lambda instrumented: _runner(context, instrumented),
        samples.first(count),
        batch=compute_batch(context, record),
        progress=context.progress,
        workers=context.workers,
    )
    return Fp16Report(samples=count, tensors=tuple(tensors), islands=find_islands(model, tensors))
