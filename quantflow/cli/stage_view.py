"""What a stage command shows of its result: short tables, worst first, and all records as JSON."""

from __future__ import annotations

from typing import Any

from quantflow.report import comparison_sheets, export_sheets, model_sheets, range_sheets
from quantflow.report.artifacts import Artifacts
from quantflow.report.sheet import Sheet

ROWS = 8
"""Rows of a table that may be long."""


def stage_sheets(artifacts: Artifacts, stage: str) -> list[Sheet]:
    """The tables of one stage, given by its folder; none of what is missing."""
    found: list[Sheet] = []
    if stage == "00_model" and artifacts.model is not None:
        found += [model_sheets.inputs_sheet(artifacts.model)]
        found += [model_sheets.layers_sheet(artifacts.model).first(ROWS)]
    elif stage == "10_set":
        found += [model_sheets.sets_sheet(artifacts.sets)]
    elif stage == "20_ranges":
        found += _range_sheets(artifacts)
    elif stage == "40_onnx":
        found += _export_sheets(artifacts)
    elif stage == "45_compare" and artifacts.comparison is not None:
        found += [comparison_sheets.errors_sheet(artifacts.comparison).first(ROWS)]
        found += [comparison_sheets.precisions_sheet(artifacts.comparison)]
    elif stage == "50_om" and artifacts.om is not None:
        found += [export_sheets.findings_sheet(artifacts.om)]
        found += [export_sheets.conversions_sheet(artifacts.om)]
    return found


def _range_sheets(artifacts: Artifacts) -> list[Sheet]:
    found: list[Sheet] = []
    if artifacts.clipping is not None:
        found += [range_sheets.clipping_sheet(artifacts.clipping).first(ROWS)]
    if artifacts.fp16 is not None:
        found += [range_sheets.islands_sheet(artifacts.fp16).first(ROWS)]
    if artifacts.ranges is not None:
        found += [range_sheets.nonfinite_sheet(artifacts.ranges).first(ROWS)]
    return found


def _export_sheets(artifacts: Artifacts) -> list[Sheet]:
    found: list[Sheet] = []
    if artifacts.parity is not None:
        found += [export_sheets.parity_sheet(artifacts.parity).first(ROWS)]
    if artifacts.plan is not None:
        found += [export_sheets.plan_sheet(artifacts.plan).first(ROWS)]
    if artifacts.export is not None:
        found += [export_sheets.buckets_sheet(artifacts.export)]
    return found


_RECORDS = {
    "00_model": ("model",),
    "10_set": (),
    "20_ranges": ("ranges", "clipping", "fp16"),
    "40_onnx": ("plan", "export", "parity"),
    "45_compare": ("comparison", "summary"),
    "50_om": ("om",),
}
"""Attributes of `Artifacts` that hold a stage's records."""


def stage_records(artifacts: Artifacts, stage: str) -> dict[str, Any]:
    """The records of one stage as JSON values, by the name of their file."""
    if stage == "10_set":
        return {record.name: record.model_dump(mode="json") for record in artifacts.sets}
    records = {name: getattr(artifacts, name) for name in _RECORDS[stage]}
    return {name: x.model_dump(mode="json") for name, x in records.items() if x is not None}
