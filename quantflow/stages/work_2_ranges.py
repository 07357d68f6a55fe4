"""The work of stage 2: histograms, ranges, coverage, clipping and what fp16 cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.atomic import write_atomically
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
from quantflow.artifacts.stability_record import StabilityReport
from quantflow.calibration.features.profile_tensors import tensors_of
from quantflow.calibration.profile.profile_file import load_profile
from quantflow.graph.layer_settings import layer_settings
from quantflow.graph.model_io import load_model
from quantflow.graph.quantized.settle import given_params
from quantflow.ranges.channel_file import save_channel_absmax
from quantflow.ranges.choose_ranges import JUDGED_ROWS, choose_ranges, weights_of_layers
from quantflow.ranges.clipping_csv import clipping_csv
from quantflow.ranges.collect import Collection
from quantflow.ranges.coverage import coverage_of
from quantflow.ranges.histogram_file import save_histograms
from quantflow.ranges.stability import stability_report
from quantflow.stages.collecting import collect_split, open_tensors
from quantflow.stages.fp16_report import fp16_report
from quantflow.stages.stage import Context

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
        weights_of_layers(model),
        seen,
        settings,
        given=given_params(record),
        progress=context.progress,
        workers=context.workers,
    )
    return Measured(record, seen, ranges, rows, fp16_report(context, model, record))


def _collect(context: Context, model: ir.Model, record: ModelRecord) -> dict[Split, Collection]:
    tensors = record.tensors
    opened = open_tensors(context, model, record, tensors)
    profiled = _profiled(context, tensors)
    collections = dict[Split, Collection]()
    for split in SPLITS:
        if split == "heldout" and profiled is not None:
            # A profile holds neither inputs nor outputs of the model: those are of the samples.
            lacking = [tensor for tensor in tensors if tensor not in profiled.tensors]
            found = dict(profiled.tensors)
            if lacking:
                own = collect_split(context, opened, record, split, lacking, 0)
                found |= own.tensors
            collections[split] = Collection({tensor: found[tensor] for tensor in tensors}, ())
            continue
        rows = JUDGED_ROWS if split == "calibration" else 0
        collections[split] = collect_split(context, opened, record, split, tensors, rows)
    return collections


def _profiled(context: Context, tensors: Sequence[str]) -> Collection | None:
    """What the profile that stands in for deployment holds of the tensors; None without one."""
    if context.config.set.profile is None:
        return None
    profile = load_profile(context.folder("10_set") / "profile.safetensors")
    return tensors_of(profile, context.model_digest, tensors, partly=True)


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
