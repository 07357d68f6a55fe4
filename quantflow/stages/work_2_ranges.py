"""The work of stage 2: histograms, ranges, coverage, clipping and what fp16 cannot hold."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.ranges_record import (
    ClippingReport,
    ClippingRow,
    Fp16Report,
    RangesRecord,
    Split,
    TensorRange,
)
from quantflow.artifacts.sample_set import SampleSet
from quantflow.graph.edit import constant, values_by_name, with_outputs
from quantflow.graph.model_io import load_model, model_bytes
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.clipping import Subject, clipping_rows
from quantflow.ranges.collect import Collection, TensorStatistics, collect
from quantflow.ranges.coverage import coverage_report, coverage_row
from quantflow.ranges.estimators import EstimatorSettings
from quantflow.ranges.fp16_safety import find_islands, measure_fp16
from quantflow.ranges.histogram_file import save_histograms
from quantflow.ranges.select import select_range
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.stages.stage import Context

FP16_SAMPLES = 16
"""Calibration samples that every float tensor is measured on."""

SPLITS: tuple[Split, ...] = ("calibration", "heldout")


def work(context: Context, folder: Path) -> None:
    """Write histograms, ranges, coverage, the clipping report and the fp16 report."""
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    model = load_model(context.folder("00_model") / "model.onnx")
    seen = _collect(context, model, record)
    save_histograms(
        folder / "histograms.safetensors",
        {
            split: {name: tensor.histogram for name, tensor in collection.tensors.items()}
            for split, collection in seen.items()
        },
    )
    ranges, rows = _choose(context, model, record, seen)
    _coverage(record, seen, ranges).write(folder / "coverage.json")
    RangesRecord(
        ranges=tuple(ranges),
        nonfinite=tuple(x for split in SPLITS for x in seen[split].nonfinite(split)),
    ).write(folder / "ranges.json")
    ClippingReport(rows=tuple(rows)).write(folder / "clipping.json")
    _fp16(context, model, record).write(folder / "fp16.json")


def compute_batch(context: Context, record: ModelRecord) -> int:
    """Samples per inference of the canonical model: its own number where the batch is fixed."""
    first = record.inputs[0].shape[0]
    return first if isinstance(first, int) else context.config.runtime.batch


def _collect(context: Context, model: ir.Model, record: ModelRecord) -> dict[Split, Collection]:
    tensors = [group.tensor for group in record.groups]
    runner = OnnxRuntimeRunner(model_bytes(with_outputs(model, tensors)), context.config.runtime)
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
            progress=lambda _, done, total, split=split: context.progress(
                f"{split} samples", done, total
            ),
        )
    return collections


def _choose(
    context: Context, model: ir.Model, record: ModelRecord, seen: dict[Split, Collection]
) -> tuple[list[TensorRange], list[ClippingRow]]:
    config = context.config.quantization
    settings = EstimatorSettings(symmetric=config.symmetric, percentile=config.percentile)
    values = values_by_name(model)
    ranges, rows = list[TensorRange](), list[ClippingRow]()
    for done, group in enumerate(record.groups, 1):
        tensors: dict[Split, TensorStatistics] = {
            split: seen[split].tensors[group.tensor] for split in SPLITS
        }
        weights = [constant(values[x.weight]) for x in record.layers_of(group.tensor)]
        selection = select_range(
            tensors["calibration"],
            [weight.numpy() for weight in weights if weight is not None],
            settings,
            estimator=config.estimator,
            per_channel=config.weight_granularity == "per-channel",
        )
        ranges.append(selection.range_of(group.tensor, symmetric=config.symmetric))
        for split, tensor in tensors.items():
            subject = Subject(
                tensor=group.tensor,
                group=group.name,
                split=split,
                symmetric=config.symmetric,
                ids=seen[split].ids,
                sample_low=tensor.sample_low,
                sample_high=tensor.sample_high,
                calibrated=tensors["calibration"].histogram if split == "heldout" else None,
            )
            rows += clipping_rows(tensor.histogram, selection.candidates, selection.chosen, subject)
        context.progress("ranges", done, len(record.groups))
    return ranges, rows


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
        lambda content: OnnxRuntimeRunner(content, context.config.runtime),
        samples.first(count),
        batch=compute_batch(context, record),
        progress=context.progress,
    )
    return Fp16Report(samples=count, tensors=tuple(tensors), islands=find_islands(model, tensors))
