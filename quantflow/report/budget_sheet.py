"""The table of every precision beside what the budget asks for."""

from __future__ import annotations

from typing import get_args

from quantflow.artifacts.comparison import Comparison, Precision
from quantflow.report.columns import Column, sheet_of
from quantflow.report.measures import measure_columns
from quantflow.report.sheet import Sheet

_NAMES: dict[Precision, str] = {"fp16_plain": "fp16 without islands"}


def budget_sheet(comparison: Comparison) -> Sheet:
    """What each precision comes to by every measure, with intervals; limits in the last row."""
    measured = comparison.measures.values()
    precisions: tuple[Precision, ...] = get_args(Precision)
    shown = [name for name in precisions if measured and all(name in x for x in measured)]
    columns = [
        Column("precision", tuple(_NAMES.get(x, x) for x in shown), "l", foot="budget of int8"),
        *measure_columns([[x[name] for x in measured] for name in shown]),
    ]
    note = "Intervals are those of the difference to fp32, sample by sample."
    return sheet_of("Against the budget", columns, note, footed=bool(shown))
