"""The table of a diagnosis: what every change does to the loss."""

from __future__ import annotations

from math import isfinite

from quantflow.artifacts.diagnosis_record import DiagnosisRecord, Experiment, Share
from quantflow.report.columns import Column, sheet_of
from quantflow.report.measures import measure_columns
from quantflow.report.sheet import Sheet, share_text

WORSE = "makes it worse"
"""A share below zero: it is of no use how many times the loss is added."""


def experiments_sheet(found: DiagnosisRecord) -> Sheet:
    """The references, then by cause; below, what the budget asks for."""
    experiments = found.experiments
    columns = [
        Column("what is changed", tuple(x.name for x in experiments), "l", foot="budget"),
        Column("evidence for", tuple(_cause(x) for x in experiments), "l", spare=1),
        *measure_columns([x.measures for x in experiments]),
    ]
    if any(x.removed is not None for x in experiments):
        shares = [x.removed for x in experiments]
        columns.append(Column("loss removed", tuple(map(_value, shares))))
        columns.append(Column("95% interval", tuple(map(_interval, shares)), spare=2))
    return sheet_of("Diagnosis", columns, _note(found), footed=True)


def _note(found: DiagnosisRecord) -> str:
    step = f" Next: {found.next_step}." if found.next_step else ""
    said = f"{found.sentence}{step} {found.samples} evaluation samples, emulated."
    if found.fp16_share is not None and found.finding != "fp16":
        share = share_text(found.fp16_share.value, 0)
        said += f" The loss removed is of what INT8 adds to fp16, which has {share} of it alone."
    if found.also:
        said += f" Half or more goes with these as well: {', '.join(found.also)}."
    return " ".join([said, *found.notes])


def _cause(experiment: Experiment) -> str:
    return experiment.cause or "-"


def _value(share: Share | None) -> str:
    if share is None or not isfinite(share.value):
        return "-"
    percent = _percent(share.value)
    return WORSE if percent.startswith("-") else percent


def _interval(share: Share | None) -> str:
    if share is None or not isfinite(share.low) or share.high < 0:
        return "-"
    return f"{_percent(share.low)} to {_percent(share.high)}"


def _percent(value: float) -> str:
    return "0%" if abs(value) < 0.005 else share_text(value, 0)
