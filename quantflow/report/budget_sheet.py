"""The table of every precision beside what the budget asks for."""

from __future__ import annotations

from quantflow.artifacts.comparison import Comparison, Precision
from quantflow.report.columns import Column, sheet_of
from quantflow.report.measures import measure_columns
from quantflow.report.sheet import Sheet

_NAMES: dict[Precision, str] = {
    "fp32": "fp32",
    "fp16": "fp16",
    "fp16_plain": "fp16 without islands",
    "int8": "int8",
}


def budget_sheet(comparison: Comparison) -> Sheet:
    """What each precision comes to by every measure, with intervals; limits in the last row."""
    measured = list(comparison.measures.values())
    shown: list[Precision] = [
        name for name in _NAMES if measured and all(name in x for x in measured)
    ]
    columns = [
        Column("precision", tuple(_NAMES[x] for x in shown), "l", foot="budget of int8"),
        *measure_columns([[x[name] for x in measured] for name in shown]),
    ]
    note = "Intervals are those of the difference to fp32, sample by sample."
    return sheet_of("Against the budget", columns, note, footed=bool(shown))
