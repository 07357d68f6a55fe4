# pyright: reportUnknownMemberType=false
"""Plots of layers and tensors: error, clipping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quantflow.artifacts.comparison import LayerError
from quantflow.artifacts.ranges_record import ClippingRow
from quantflow.report.svg import GRID, INK, SERIES, draw, name_rows, rows_height

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 40
"""Rows that a plot shows; the tables hold all."""


def sqnr_plot(layers: Sequence[LayerError]) -> str:
    """Bars of the layers' SQNR in dB, the first layer on top.

    Args:
        layers: in the order to show them; those beyond `MOST_BARS` are left out.
    """
    shown = layers[:MOST_BARS]

    def paint(axes: Axes) -> None:
        spots = range(len(shown))
        own = [_bounded(x.own_sqnr_db) for x in shown]
        axes.barh(spots, own, height=0.62, color=SERIES[0], label="own quantization")
        total = [_bounded(x.sqnr_db) for x in shown]
        (dots,) = axes.plot(total, spots, "o", color=SERIES[1], markersize=5)
        dots.set(label="all errors before it too", markeredgecolor=INK, markeredgewidth=0.7)
        name_rows(axes, [x.layer for x in shown], "SQNR in dB (longer is better)")

    return draw("sqnr", rows_height(len(shown)), paint)


def clipping_plot(rows: Sequence[ClippingRow]) -> str:
    """The range in force of each tensor against the largest value seen of it, log scale.

    Args:
        rows: chosen rows in the order to show them; those beyond `MOST_BARS` are left out.
    """
    from matplotlib.ticker import LogLocator

    shown = rows[:MOST_BARS]

    def paint(axes: Axes) -> None:
        spots = range(len(shown))
        bounds = [max(abs(x.low), abs(x.high)) for x in shown]
        seen = [x.absmax for x in shown]
        axes.hlines(spots, bounds, seen, color=GRID, linewidth=3)
        axes.plot(bounds, spots, "o", color=SERIES[0], markersize=6, label="largest bound in force")
        axes.plot(seen, spots, "D", color=SERIES[1], markersize=4, label="largest value seen")
        if any(value > 0 for value in (*bounds, *seen)):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
        labels = [f"{x.tensor} ({x.split})" for x in shown]
        name_rows(axes, labels, "magnitude, units of the tensor")

    return draw("clipping", rows_height(len(shown)), paint)


def _bounded(value: float) -> float:
    """A bar needs a finite length: exact layers have an SQNR of infinity."""
    return min(max(value, -200.0), 200.0) if value == value else -200.0
