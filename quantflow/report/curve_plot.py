# pyright: reportUnknownMemberType=false
"""The plot of stage 3's plans: accuracy against INT8 share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from quantflow.artifacts.sweep_record import CurvePoint, PolicyResult, SweepRecord
from quantflow.report.quantities import FIGURES, Quantity
from quantflow.report.svg import FAIL, SERIES, add_legend, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS = {
    "none": ("s", 10, SERIES[1]),
    "attention": ("^", 8, SERIES[3]),
    "auto": ("D", 5, SERIES[2]),
}
"""Shape, size and colour of every policy; `auto` shows on top of `none`, where they are equal."""

DEEPEST = 10
"""How far down a plot reaches at most, in limits: what is worse would press all else together."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A plan on the plot, all in percent or the figure's own unit.

    Attributes:
        share: of MACs in INT8.
        figure, low, high: by the first measure, with its interval, which it is inside of.
    """

    share: float
    figure: float
    low: float
    high: float


def curve_plot(sweep: SweepRecord) -> str:
    """The first measure against INT8 share: plans tried, budget, the policies.

    Lines follow the search along its rankings, and need not be monotone; the other plans that it
    tried are dots.
    """
    figure = measured_by(sweep)
    lines, others = walks(sweep.curve)

    def paint(axes: Axes) -> None:
        for number, walk in enumerate(lines):
            _line(axes, _spots(walk, figure), "" if number else "along a ranking, search samples")
        _dots(axes, _spots(others, figure))
        limit = sweep.policies[0].measures[0].limit
        if limit is not None:
            bound = figure.scale * figure.of_damage(limit)
            axes.axhline(bound, color=FAIL, linewidth=1, linestyle="--", label="budget")
        end = _end(sweep, figure, limit)
        _policies(axes, sweep, figure, end)
        if end is not None:
            low, high = axes.get_ylim()
            axes.set_ylim((end, high) if figure.falls else (low, end))
        axes.set_xlabel("MACs in INT8, %")
        axes.set_ylabel(figure.label)
        axes.yaxis.set_major_formatter("{x:.6g}")
        axes.grid(linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        add_legend(axes, columns=3)

    return draw("curve", 3.8, paint)


def measured_by(sweep: SweepRecord) -> Quantity:
    """What the height of the plot is: the first measure, which has a limit if any has one."""
    return FIGURES[sweep.policies[0].measures[0].metric]


def walks(curve: Sequence[CurvePoint]) -> tuple[list[list[CurvePoint]], list[CurvePoint]]:
    """What the search tried along its rankings, and what else.

    Returns:
        Chains in which the sets of fp16 groups grow, and the plans that are in none of them.
    """
    chains, others = list[list[CurvePoint]](), list[CurvePoint]()
    for point in curve:
        if point.step != "curve":
            continue
        if not chains or not _groups(point) >= _groups(chains[-1][-1]):
            chains.append([])
        chains[-1].append(point)
    for point in curve:
        if point.step == "curve":
            continue
        fitting = (chain for chain in chains if _on_the_way(point, chain))
        chain = next(fitting, None) if point.step == "refine" else None
        (others if chain is None else chain).append(point)
    return [sorted(chain, key=lambda x: len(x.fp16_groups)) for chain in chains], others


def _groups(point: CurvePoint) -> frozenset[str]:
    return frozenset(point.fp16_groups)


def _on_the_way(point: CurvePoint, chain: Sequence[CurvePoint]) -> bool:
    own = _groups(point)
    return all(own >= _groups(x) or own <= _groups(x) for x in chain)


def _spots(plans: Sequence[CurvePoint] | Sequence[PolicyResult], figure: Quantity) -> list[Spot]:
    """Those whose outputs are finite."""
    return [spot for x in plans if isfinite((spot := _spot(x, figure)).figure)]


def _spot(plan: CurvePoint | PolicyResult, figure: Quantity) -> Spot:
    measure = plan.measures[0]
    middle = figure.of_damage(measure.damage)
    ends = [end if isfinite(end) else middle for end in figure.ends(measure.low, measure.high)]
    low, high = min(ends[0], middle), max(ends[1], middle)
    share, scale = 100 * plan.int8_mac_fraction, figure.scale
    return Spot(share, scale * middle, scale * low, scale * high)


def _line(axes: Axes, spots: Sequence[Spot], label: str) -> None:
    shares = [x.share for x in spots]
    lows, highs = [x.low for x in spots], [x.high for x in spots]
    axes.fill_between(shares, lows, highs, color=SERIES[0], alpha=0.2, linewidth=0)
    axes.plot(shares, [x.figure for x in spots], ".-", color=SERIES[0], label=label or None)


def _dots(axes: Axes, spots: Sequence[Spot]) -> None:
    if spots:
        _errorbars(axes, spots, SERIES[5], ".", 5, "other plans, search samples")


def _errorbars(
    axes: Axes, spots: Sequence[Spot], colour: str, marker: str, size: int, label: str
) -> None:
    reach = [[x.figure - x.low for x in spots], [x.high - x.figure for x in spots]]
    axes.errorbar(
        [x.share for x in spots],
        [x.figure for x in spots],
        yerr=reach,
        fmt=marker,
        color=colour,
        markersize=size,
        elinewidth=1,
        label=label,
    )


def _end(sweep: SweepRecord, figure: Quantity, limit: float | None) -> float | None:
    """Where the plot ends, if some plan is worse than that."""
    if not limit:
        return None
    best = figure.of_damage(0.0)
    end = figure.scale * (best + DEEPEST * (figure.of_damage(limit) - best))
    spots = [*_spots(sweep.curve, figure), *_spots(sweep.policies, figure)]
    return end if any(_is_beyond(x, end, figure) for x in spots) else None


def _is_beyond(spot: Spot, end: float | None, figure: Quantity) -> bool:
    return end is not None and (spot.figure < end if figure.falls else spot.figure > end)


def _policies(axes: Axes, sweep: SweepRecord, figure: Quantity, end: float | None) -> None:
    """The policies on the verification samples; at the edge, with their figure, if beyond it."""
    for result in sweep.policies:
        for spot in _spots([result], figure):
            marker, size, colour = _MARKS[result.policy]
            label = f"policy {result.policy}, held-out samples"
            if end is not None and _is_beyond(spot, end, figure):
                label += f": {figure.damage_text(result.measures[0].damage)}"
                (mark,) = axes.plot([spot.share], [end], marker, color=colour, markersize=size)
                mark.set(label=label, clip_on=False)
            else:
                _errorbars(axes, [spot], colour, marker, size, label)
