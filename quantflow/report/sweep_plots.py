# pyright: reportUnknownMemberType=false
"""Plots of stage 3: how much each group hurts, and accuracy against INT8 share."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, get_args

from quantflow.artifacts.sweep_record import GroupScore, SweepRecord
from quantflow.config import Role
from quantflow.report.plan_sheets import best_points
from quantflow.report.plots import MOST_BARS
from quantflow.report.svg import (
    FAIL,
    GRID,
    INK,
    SERIES,
    add_legend,
    draw,
    name_rows,
    rows_height,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROLES: tuple[Role, ...] = get_args(Role)

_MARKS = {
    "none": ("s", 10, SERIES[1]),
    "attention": ("^", 8, SERIES[3]),
    "auto": ("D", 5, SERIES[2]),
}
"""Shape, size and colour of every policy; `auto` shows on top of `none`, where they are equal."""


def scores_plot(sweep: SweepRecord) -> str:
    """Bars of the groups' damage with intervals, the most harmful on top, coloured by role.

    Groups beyond `MOST_BARS` are left out.
    """
    shown = sweep.scores[:MOST_BARS]
    known = [x for score in shown for x in (score.damage, score.high) if isfinite(x)]
    longest = max(known, default=1.0)

    def paint(axes: Axes) -> None:
        for role, colour in zip(ROLES, SERIES, strict=True):
            spots = [spot for spot, x in enumerate(shown) if x.role == role]
            if not spots:
                continue
            scores = [_drawable(shown[spot], longest) for spot in spots]
            damage = [x.damage for x in scores]
            reach = [[x.damage - x.low for x in scores], [x.high - x.damage for x in scores]]
            axes.barh(spots, damage, height=0.62, color=colour, label=role)
            axes.errorbar(damage, spots, xerr=reach, fmt="none", ecolor=INK, elinewidth=1)
        measure = f"damage to the {sweep.metric} with its 95% interval (longer is worse)"
        name_rows(axes, [x.group for x in shown], measure)

    return draw("scores", rows_height(len(shown)), paint)


def _drawable(score: GroupScore, longest: float) -> GroupScore:
    """With finite lengths in order: a broken output has no damage that could be drawn."""
    if not isfinite(score.damage):
        return score.model_copy(update={"damage": longest, "low": longest, "high": longest})
    low = min(score.low, score.damage) if isfinite(score.low) else score.damage
    high = max(score.high, score.damage) if isfinite(score.high) else score.damage
    return score.model_copy(update={"low": low, "high": high})


def curve_plot(sweep: SweepRecord) -> str:
    """Mean cosine against INT8 share: best plan tried of every share, budget, the policies."""
    best = best_points(sweep)

    def paint(axes: Axes) -> None:
        shares = [100 * x.int8_mac_fraction for x in best]
        lows, highs = [x.cosine_low for x in best], [x.cosine_high for x in best]
        axes.fill_between(shares, lows, highs, color=SERIES[0], alpha=0.2, linewidth=0)
        means = [x.cosine_mean for x in best]
        axes.plot(shares, means, ".-", color=SERIES[0], label="best plan tried, search samples")
        others = [x for x in sweep.curve if x not in best and isfinite(x.cosine_mean)]
        axes.plot(
            [100 * x.int8_mac_fraction for x in others],
            [x.cosine_mean for x in others],
            ".",
            color=GRID,
        )
        _policies(axes, sweep)
        axes.axhline(sweep.budget, color=FAIL, linewidth=1, linestyle="--", label="budget")
        axes.set_xlabel("MACs in INT8, %")
        axes.set_ylabel("mean cosine to fp32")
        axes.yaxis.set_major_formatter("{x:.6g}")
        axes.grid(linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        add_legend(axes, columns=3)

    return draw("curve", 3.6, paint)


def _policies(axes: Axes, sweep: SweepRecord) -> None:
    """The policies on the verification samples, with their intervals."""
    for result in sweep.policies:
        if not isfinite(result.cosine_mean):
            continue
        marker, size, colour = _MARKS[result.policy]
        mean, share = result.cosine_mean, 100 * result.int8_mac_fraction
        reach = [[max(mean - result.cosine_low, 0.0)], [max(result.cosine_high - mean, 0.0)]]
        axes.errorbar(
            [share],
            [mean],
            yerr=reach,
            fmt=marker,
            color=colour,
            markersize=size,
            elinewidth=1,
            label=f"policy {result.policy}, held-out samples",
        )
