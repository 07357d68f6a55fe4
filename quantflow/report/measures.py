"""What plans come to by every measure, beside what the budget asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from quantflow.artifacts.sweep_record import Measure, PolicyResult, SweepRecord
from quantflow.report.columns import Column
from quantflow.report.quantities import FIGURES, VALUES
from quantflow.report.sheet import share_text

_SPARE_FREE_INTERVAL, _SPARE_VALUE, _SPARE_FREE, _SPARE_INTERVAL = 9, 7, 6, 1
"""In which order a narrow terminal leaves out columns: what has no limit (free) goes early."""


def measure_columns(found: Sequence[Sequence[Measure]]) -> list[Column]:
    """Value, if it is not told with the damage, damage and interval by every measure; limits below.

    Args:
        found: the measures of every row, the same ones in all.
    """
    return [x for column in zip(*found, strict=True) for x in _columns_of(column)]


def _columns_of(found: Sequence[Measure]) -> Iterator[Column]:
    """The columns of one measure."""
    metric, limit = found[0].metric, found[0].limit
    figure = FIGURES[metric]
    if not figure.falls:
        head, text = VALUES[metric]
        yield Column(head, tuple(text(x.value) for x in found), spare=_SPARE_VALUE)
    told = tuple(figure.damage_text(x.damage) for x in found)
    intervals = tuple(figure.interval_text(x.low, x.high) for x in found)
    if limit is None:
        yield Column(figure.head, told, spare=_SPARE_FREE)
        yield Column("95% interval", intervals, spare=_SPARE_FREE_INTERVAL)
    else:
        yield Column(figure.head, told, foot=figure.bound_cell(limit))
        yield Column("95% interval", intervals, spare=_SPARE_INTERVAL)


def budget_texts(sweep: SweepRecord) -> list[str]:
    """What the budget asks for, one phrase a limit."""
    measures = sweep.policies[0].measures if sweep.policies else ()
    asked = [
        f"{FIGURES[x.metric].name} {FIGURES[x.metric].bound_text(x.limit)}"
        for x in measures
        if x.limit is not None
    ]
    if sweep.least_int8_fraction is not None:
        asked.append(f"at least {100 * sweep.least_int8_fraction:.6g}% of MACs in INT8")
    if sweep.most_fp16_groups is not None:
        asked.append(f"at most {sweep.most_fp16_groups} groups in fp16")
    return asked


def misses(result: PolicyResult, sweep: SweepRecord) -> list[str]:
    """By how much a plan misses each limit that it misses."""
    found = [_miss(x, x.limit) for x in result.measures if x.limit is not None and not x.meets]
    least, most = sweep.least_int8_fraction, sweep.most_fp16_groups
    if least is not None and result.int8_mac_fraction < least:
        short = 100 * (least - result.int8_mac_fraction)
        found.append(
            f"{share_text(result.int8_mac_fraction)} of MACs are in INT8, {short:.4g} points below "
            f"the limit of {100 * least:.6g}%"
        )
    if most is not None and result.fp16_groups > most:
        beyond = result.fp16_groups - most
        found.append(f"{result.fp16_groups} groups are in fp16, {beyond} above the limit of {most}")
    return found


def _miss(measure: Measure, limit: float) -> str:
    figure = FIGURES[measure.metric]
    allowed = f"the limit of {figure.limit_text(figure.of_damage(limit))}"
    if not isfinite(figure.of_damage(measure.damage)):
        return f"{figure.name} is not finite, and so misses {allowed}"
    gap, side = figure.gap_text(measure.damage, limit), "below" if figure.falls else "above"
    return f"{figure.name} is {figure.damage_text(measure.damage)}, {gap} {side} {allowed}"
