# pyright: reportUnknownMemberType=false
"""The values of one tensor with the bounds that the estimators gave it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from quantflow.artifacts.ranges_record import ClippingRow
from quantflow.ranges.estimators import ESTIMATORS
from quantflow.report.svg import GRID, INK, SERIES, add_legend, draw
from quantflow.report.tensor_story import TensorStory
from quantflow.report.value_bins import binned, linear_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 160
"""Bins of the plot."""

TICKS = 9
"""Numbers along the axis of values."""

_LEAST = 0.7
"""Where the axis of counts begins: a bin of one value is seen, an empty one is not."""


def histogram_plot(story: TensorStory, name: str) -> str:
    """Counts of both splits on a log scale, and every estimator's bounds.

    Args:
        story: of the tensor.
        name: of the figure, unique on the page.
    """
    from matplotlib.ticker import NullLocator

    edges, counts = binned(story.histograms, BINS)
    shown = _shown(story.calibrated)

    def paint(axes: Axes) -> None:
        axes.stairs(
            counts["calibration"],
            edges,
            baseline=_LEAST,
            fill=True,
            color=GRID,
            label="calibration",
        )
        axes.stairs(
            counts["heldout"], edges, baseline=_LEAST, color=INK, linewidth=0.8, label="held-out"
        )
        for row, colour in zip(shown, SERIES[:5], strict=False):
            style = "-" if row.chosen else "--"
            label = f"{row.candidate}, in force" if row.chosen else row.candidate
            for bound, text in ((row.low, label), (row.high, None)):
                axes.axvline(
                    bound, color=colour, linestyle=style, linewidth=1.5, label=text or "_nolegend_"
                )
        width = linear_width(story.histograms)
        reach = [*edges, *(x for row in shown for x in (row.low, row.high))]
        places = np.sinh(np.linspace(*_limits(min(reach), max(reach), width), TICKS + 2)) * width
        axes.set_xscale("asinh", linear_width=width)
        axes.set_xlim(places[0], places[-1])
        # matplotlib's own ticks of this scale overlap around zero.
        axes.set_xticks([float(f"{x:.2g}") for x in places[1:-1]])
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_yscale("log")
        axes.set_ylim(bottom=_LEAST)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(f"value of {story.chosen.tensor}")
        axes.set_ylabel("values in the bin")
        axes.spines[["top", "right"]].set_visible(False)
        add_legend(axes, columns=4)

    return draw(name, 3.0, paint)


def _shown(rows: Sequence[ClippingRow]) -> list[ClippingRow]:
    """The estimators' candidates, and what is in force if it is another one."""
    return [row for row in rows if row.candidate in ESTIMATORS or row.chosen]


def _limits(low: float, high: float, width: float) -> tuple[float, float]:
    """The ends of the axis after ``asinh(x / width)``: a little more than low to high."""
    first, last = float(np.arcsinh(low / width)), float(np.arcsinh(high / width))
    margin = 0.02 * (last - first)
    return first - margin, last + margin
