# pyright: reportUnknownMemberType=false
"""The plot of stage 3's scores: how much each group hurts."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, get_args

from quantflow.artifacts.sweep_record import Effect, SweepRecord
from quantflow.config import Role
from quantflow.report.plots import MOST_BARS
from quantflow.report.quantities import DAMAGES, Quantity
from quantflow.report.svg import INK, SERIES, draw, name_rows, rows_height

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROLES: tuple[Role, ...] = get_args(Role)


def scores_plot(sweep: SweepRecord) -> str:
    """Bars of the groups' damage with intervals, the most harmful on top, coloured by role.

    Groups beyond `MOST_BARS` are left out.
    """
    shown = sweep.scores[:MOST_BARS]
    damage = DAMAGES[sweep.metric]
    alone = _drawable([x.one_in for x in shown], damage)
    others = _drawable([x.one_out for x in shown], damage)

    def paint(axes: Axes) -> None:
        for role, colour in zip(ROLES, SERIES, strict=True):
            spots = [spot for spot, x in enumerate(shown) if x.role == role]
            if not spots:
                continue
            lengths, reach = _bars([alone[spot] for spot in spots])
            axes.barh(spots, lengths, height=0.62, color=colour, label=role)
            axes.errorbar(lengths, spots, xerr=reach, fmt="none", ecolor=INK, elinewidth=1)
        axes.plot(
            [middle for middle, _, _ in others],
            range(len(others)),
            "D",
            color=INK,
            markerfacecolor="none",
            markersize=4,
            label="among others in INT8",
        )
        label = f"{damage.label}, alone in INT8, with its 95% interval (longer is worse)"
        axes.xaxis.set_major_formatter("{x:.4g}")
        name_rows(axes, [x.group for x in shown], label)

    return draw("scores", rows_height(len(shown)), paint)


Bar = tuple[float, float, float]
"""Length, and both ends of its interval, which are not inside it."""


def _drawable(effects: list[Effect], damage: Quantity) -> list[Bar]:
    """In the plot's unit, with finite lengths: a broken output has no damage that can be drawn."""
    scaled = [
        (_scaled(x.damage, damage), _scaled(x.low, damage), _scaled(x.high, damage))
        for x in effects
    ]
    longest = max((end for bar in scaled for end in bar if isfinite(end)), default=1.0)
    return [_finite(*bar, longest) for bar in scaled]


def _scaled(value: float, damage: Quantity) -> float:
    return damage.scale * damage.of_damage(value)


def _finite(length: float, low: float, high: float, longest: float) -> Bar:
    if not isfinite(length):
        return longest, longest, longest
    low, high = (end if isfinite(end) else length for end in (low, high))
    return length, min(low, length), max(high, length)


def _bars(bars: list[Bar]) -> tuple[list[float], list[list[float]]]:
    lengths = [length for length, _, _ in bars]
    return lengths, [[x - low for x, low, _ in bars], [high - x for x, _, high in bars]]
