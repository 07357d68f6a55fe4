"""The work of stage 2: histograms, ranges, coverage, clipping and what fp16 cannot hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.ranges_record import (
    ClippingReport,
    Fp16Report,
    RangesRecord,
    Split,
    TensorRange,
)
from quantflow.artifacts.sample_set import SampleSet
from quantflow.graph.edit import constant, values_by_name, with_outputs
from quantflow.graph.model_io import load_model, model_bytes
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.channel_file import save_channel_absmax
from quantflow.ranges.choose_ranges import Weights, choose_ranges
from quantflow.ranges.clipping_csv import clipping_csv
from quantflow.ranges.collect import Collection, collect
from quantflow.ranges.coverage import coverage_report, coverage_row
from quantflow.ranges.fp16_safety import find_islands, measure_fp16
from quantflow.ranges.histogram_file import save_histograms
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.workers import shared_machine
from quantflow.stages.stage import Context

FP16_SAMPLES = 16
"""Calibration samples that every float tensor is measured on."""

SAMPLED_ROWS = 256
"""Rows of a calibration tensor that candidates are judged on; with 128, ranges got worse."""

SPLITS: tuple[Split, ...] = ("calibration", "heldout")


def work(context: Context, folder: Path) -> None:
    """Write histograms, ranges, coverage, the clipping report and the fp16 report."""
    model, record, seen, fp16 = measure(context)
    save_histograms(
        folder / "histograms.safetensors",
        {
            split: {name: tensor.histogram for name, tensor in collection.tensors.items()}
            for split, collection in seen.items()
        },
    )
    save_channel_absmax(
        folder / "channel_absmax.safetensors",
        {
            split: {name: tensor.channel_absmax for name, tensor in collection.tensors.items()}
            for split, collection in seen.items()
        },
    )
    ranges, rows = choose_ranges(
        record.groups,
        _weights(model, record),
        seen,
        context.config.quantization,
        context.progress,
    )
    _coverage(record, seen, ranges).write(folder / "coverage.json")
    RangesRecord(
        ranges=tuple(ranges),
        nonfinite=tuple(x for split in SPLITS for x in seen[split].nonfinite(split)),
    ).write(folder / "ranges.json")
    report = ClippingReport(rows=tuple(rows))
    report.write(folder / "clipping.json")
    write_atomically(folder / "clipping.csv", clipping_csv(report).encode())
    fp16.write(folder / "fp16.json")


def measure(
    context: Context,
) -> tuple[ir.Model, ModelRecord, dict[Split, Collection], Fp16Report]:
    """Run the samples, shared out to all workers; every worker gets the same.

    Returns:
        The model and its record, the statistics of each split, and the fp16 report.
    """
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    model = load_model(context.folder("00_model") / "model.onnx")
    context.workers.connect(context.config.runtime.provider)
    return model, record, _collect(context, model, record), _fp16(context, model, record)


def compute_batch(context: Context, record: ModelRecord) -> int:
    """Samples per inference of the canonical model: its own number where the batch is fixed."""
    first = record.inputs[0].shape[0]
    return first if isinstance(first, int) else context.config.runtime.batch


def _collect(context: Context, model: ir.Model, record: ModelRecord) -> dict[Split, Collection]:
    tensors = [group.tensor for group in record.groups]
    runner = _runner(context, model_bytes(with_outputs(model, tensors)))
    collections = dict[Split, Collection]()
    for split in SPLITS:
        samples = SampleSet(context.folder("10_set") / split)
        collections[split] = collect(
            runner,
            samples,
            ids=samples.ids,
            digests=samples.digests,
            tensors=tensors,
            padding={entry.tensor: entry.layout for entry in record.padding},
            mask_name=record.mask.name if record.mask else None,
            batch=compute_batch(context, record),
            rows=SAMPLED_ROWS if split == "calibration" else 0,
            progress=lambda _, done, total, split=split: context.progress(
                f"{split} samples", done, total
            ),
            workers=context.workers,
        )
    return collections


def _runner(context: Context, model: bytes) -> OnnxRuntimeRunner:
    place = context.workers.place
    config = shared_machine(context.config.runtime, place)
    return OnnxRuntimeRunner(model, config, device=place.local_rank)


def _weights(model: ir.Model, record: ModelRecord) -> Weights:
    values = values_by_name(model)

    def of(tensor: str) -> list[NDArray[np.float32]]:
        found = [constant(values[layer.weight]) for layer in record.layers_of(tensor)]
        return [weight.numpy() for weight in found if weight is not None]

    return of


def _coverage(
    record: ModelRecord, seen: dict[Split, Collection], ranges: list[TensorRange]
) -> CoverageReport:
    calibration, heldout = seen["calibration"], seen["heldout"]
    rows = [
        coverage_row(
            group.tensor,
            group.name,
            calibration.tensors[group.tensor],
            heldout.tensors[group.tensor],
            heldout.ids,
            Bounds(chosen.low, chosen.high),
            tensors=len(record.groups),
        )
        for group, chosen in zip(record.groups, ranges, strict=True)
    ]
    return coverage_report(rows, len(calibration.ids), len(heldout.ids))


def _fp16(context: Context, model: ir.Model, record: ModelRecord) -> Fp16Report:
    samples = SampleSet(context.folder("10_set") / "calibration")
    count = min(FP16_SAMPLES, len(samples))
    tensors = measure_fp16(
        model,
        lambda content: _runner(context, content),
        samples.first(count),
        batch=compute_batch(context, record),
        progress=context.progress,
        workers=context.workers,
    )
    return Fp16Report(samples=count, tensors=tuple(tensors), islands=find_islands(model, tensors))
