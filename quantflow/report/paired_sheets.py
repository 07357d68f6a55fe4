"""Tables of the task: precisions pair by pair on the same samples, and its further figures."""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf, isnan
from typing import Final

from quantflow.artifacts.comparison import Comparison, PairedScore, Precision
from quantflow.report.columns import Column, sheet_of
from quantflow.report.quantities import DROPS, Quantity
from quantflow.report.sheet import Sheet, count_text, number_text, score_text

_UNITS: Final = {"retrieval": "queries", "similarity": "documents"}
"""What a task's figure is a mean over, where that is not samples."""
_PRECISIONS: Final[dict[Precision, str]] = {
    "fp32": "fp32",
    "fp16": "fp16",
    "fp16_plain": "fp16 without islands",
    "int8": "int8",
}


def all_sheets(comparison: Comparison) -> Iterator[Sheet]:
    """The tables that there is something for."""
    if comparison.paired:
        yield paired_sheet(comparison)
    if comparison.task_details:
        yield details_sheet(comparison)


def paired_sheet(comparison: Comparison) -> Sheet:
    """How much worse int8 is than fp16 in the task, and whether so few samples could tell."""
    pairs = comparison.paired
    quantity = DROPS[pairs[0].metric]
    columns = [
        Column("pair", tuple(f"{x.model} against {x.baseline}" for x in pairs), align="l"),
        Column(quantity.head, tuple(quantity.damage_text(x.damage) for x in pairs)),
        Column("95% interval", tuple(quantity.interval_text(x.low, x.high) for x in pairs)),
    ]
    if any(x.p_value is not None for x in pairs):
        columns += [
            Column("lost", tuple(_count(x.lost) for x in pairs), spare=2),
            Column("gained", tuple(_count(x.gained) for x in pairs), spare=2),
            Column("McNemar p", tuple(_p_text(x) for x in pairs)),
        ]
    columns.append(
        Column("would be seen", tuple(_seen(x, quantity) for x in pairs), spare=1),
    )
    title = f"int8 against fp16, {comparison.task_metric}"
    return sheet_of(title, columns, _note(pairs[0], quantity))


def details_sheet(comparison: Comparison) -> Sheet:
    """Further figures of the task by precision."""
    there: list[Precision] = [name for name in _PRECISIONS if name in comparison.task]
    rows = [
        (name, *(score_text(scores[x].value) for x in there))
        for name, scores in comparison.task_details.items()
    ]
    head = ("figure", *(_PRECISIONS[name] for name in there))
    return Sheet("Further figures of the task", head, "l" + "r" * len(there), tuple(rows))


def _note(pair: PairedScore, quantity: Quantity) -> str:
    """What these samples can tell, and how many more it would take."""
    units = _UNITS.get(pair.metric, "samples")
    count = f"{count_text(pair.samples)} {units}"
    if isnan(pair.detectable_drop):
        return f"No difference of int8 and fp16 can be told from {count} on which none differ."
    told = f"so few {units} show no {quantity.head}, however large"
    if not isinf(pair.detectable_drop):
        told = f"on these {count}, a {quantity.head} of {_seen(pair, quantity)} would be seen"
    text = f"Of int8 against fp16: {told}"
    if pair.asked_drop is not None and pair.samples_needed is not None:
        asked = quantity.damage_text(pair.asked_drop)
        needed = f"{count_text(_rounded(pair.samples_needed))} {units}"
        text += f"; a {quantity.head} of {asked} would need about {needed} to be seen"
    return f"{text}. Seen means by a test at 5%, in 4 of 5 cases."


def _seen(pair: PairedScore, quantity: Quantity) -> str:
    if isnan(pair.detectable_drop):
        return "-"
    if isinf(pair.detectable_drop):
        return "none"
    return quantity.damage_text(float(f"{pair.detectable_drop:.2g}"))


def _rounded(count: int) -> int:
    """Two digits, since it is told from a spread that was measured."""
    return int(float(f"{count:.2g}"))


def _p_text(pair: PairedScore) -> str:
    return "-" if pair.p_value is None else number_text(pair.p_value)


def _count(value: int | None) -> str:
    return "-" if value is None else count_text(value)
