"""What a stage command shows of its result: short tables, worst first, and all records as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from quantflow.report import (
    comparison_sheets,
    coverage_sheets,
    drift_sheets,
    export_sheets,
    model_sheets,
    optimize_sheets,
    paired_sheets,
    plan_sheets,
    range_sheets,
    score_sheets,
)
from quantflow.report.artifacts import Artifacts
from quantflow.report.sheet import Sheet

ROWS = 10
"""Rows of a table that may be long."""


def stage_sheets(artifacts: Artifacts, stage: str) -> list[Sheet]:
    """The tables of one stage, given by its folder; none of what is missing."""
    return [sheet.first(ROWS) for sheet in _SHEETS[stage](artifacts)]


def _model(found: Artifacts) -> Iterator[Sheet]:
    if found.model is not None:
        yield model_sheets.inputs_sheet(found.model)
        yield model_sheets.layers_sheet(found.model)


def _sets(found: Artifacts) -> Iterator[Sheet]:
    yield model_sheets.sets_sheet(found.sets)
    if found.drift is not None:
        yield drift_sheets.features_sheet(found.drift)
        yield drift_sheets.examples_sheet(found.drift, found.sets)
        yield drift_sheets.selections_sheet(found.drift)


def _ranges(found: Artifacts) -> Iterator[Sheet]:
    if found.clipping is not None:
        yield range_sheets.clipping_sheet(found.clipping)
    if found.fp16 is not None:
        yield range_sheets.islands_sheet(found.fp16)
    if found.ranges is not None:
        yield range_sheets.nonfinite_sheet(found.ranges)
    if found.coverage is not None:
        yield coverage_sheets.coverage_sheet(found.coverage)


def _optimize(found: Artifacts) -> Iterator[Sheet]:
    if found.optimize is not None:
        yield from optimize_sheets.all_sheets(found.optimize)


def _sweep(found: Artifacts) -> Iterator[Sheet]:
    if found.sweep is not None:
        yield score_sheets.scores_sheet(found.sweep)
        yield score_sheets.sides_sheet(found.sweep)
        yield plan_sheets.policies_sheet(found.sweep, edited=found.plan_edited)
    if found.plan is not None:
        yield plan_sheets.plan_sheet(found.plan, edited=found.plan_edited)


def _export(found: Artifacts) -> Iterator[Sheet]:
    if found.parity is not None:
        yield export_sheets.parity_sheet(found.parity)
        yield export_sheets.bucket_parity_sheet(found.parity)
    if found.plan is not None:
        yield plan_sheets.plan_sheet(found.plan, edited=found.plan_edited)
    if found.export is not None:
        yield export_sheets.buckets_sheet(found.export)


def _compare(found: Artifacts) -> Iterator[Sheet]:
    if found.comparison is not None:
        yield comparison_sheets.errors_sheet(found.comparison, found.export, found.sweep)
        yield comparison_sheets.precisions_sheet(found.comparison, found.export)
        yield from paired_sheets.all_sheets(found.comparison)


def _om(found: Artifacts) -> Iterator[Sheet]:
    if found.om is not None:
        yield export_sheets.findings_sheet(found.om.findings)
        yield export_sheets.conversions_sheet(found.om)
        yield export_sheets.rejected_sheet(found.om)


_SHEETS: dict[str, Callable[[Artifacts], Iterator[Sheet]]] = {
    "00_model": _model,
    "10_set": _sets,
    "20_ranges": _ranges,
    "25_optimize": _optimize,
    "30_sweep": _sweep,
    "40_onnx": _export,
    "45_compare": _compare,
    "50_om": _om,
}

_RECORDS = {
    "00_model": ("model",),
    "10_set": ("drift",),
    "20_ranges": ("ranges", "clipping", "coverage", "fp16"),
    "25_optimize": ("optimize",),
    "30_sweep": ("sweep", "plan"),
    "40_onnx": ("plan", "export", "parity"),
    "45_compare": ("comparison", "summary"),
    "50_om": ("om",),
}
"""Attributes of `Artifacts` that hold a stage's records."""


def stage_records(artifacts: Artifacts, stage: str) -> dict[str, Any]:
    """The records of one stage as JSON values, by the name of their file."""
    records = {name: getattr(artifacts, name) for name in _RECORDS[stage]}
    if stage == "10_set":
        records |= {record.name: record for record in artifacts.sets}
    return {name: x.to_tree() for name, x in records.items() if x is not None}
