# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Plots as inline SVG: no fonts embedded, colours from the page, the same bytes every time."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quantflow.artifacts.comparison import LayerError
from quantflow.artifacts.ranges_record import ClippingRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 40
"""Rows that a plot shows; the tables hold all."""

_INK, _GRID, _FIRST, _SECOND = "#010101", "#020202", "#030303", "#040404"
_VARIABLES = {_INK: "ink", _GRID: "grid", _FIRST: "first", _SECOND: "second"}
"""matplotlib draws in these colours, which stand for variables of the page's style sheet."""

_RC = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.parse_math": False,
    "text.color": _INK,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _GRID,
}


def sqnr_plot(layers: Sequence[LayerError]) -> str:
    """Bars of the layers' SQNR in dB, the first layer on top.

    Args:
        layers: in the order to show them; those beyond `MOST_BARS` are left out.
    """
    import matplotlib as mpl

    shown = layers[:MOST_BARS]
    with mpl.rc_context(_rc("sqnr")):
        figure, axes = _canvas(len(shown))
        spots = range(len(shown))
        own = [_bounded(x.own_sqnr_db) for x in shown]
        axes.barh(spots, own, height=0.62, color=_FIRST, label="own quantization")
        total = [_bounded(x.sqnr_db) for x in shown]
        axes.plot(
            total, spots, "o", color=_SECOND, markersize=4.5, label="all errors before it too"
        )
        _finish(axes, [x.layer for x in shown], "SQNR in dB (longer is better)")
        return _svg(figure, "sqnr")


def clipping_plot(rows: Sequence[ClippingRow]) -> str:
    """The range in force of each tensor against the largest value seen of it, log scale.

    Args:
        rows: chosen rows in the order to show them; those beyond `MOST_BARS` are left out.
    """
    import matplotlib as mpl

    shown = rows[:MOST_BARS]
    with mpl.rc_context(_rc("clipping")):
        figure, axes = _canvas(len(shown))
        spots = range(len(shown))
        bounds = [max(abs(x.low), abs(x.high)) for x in shown]
        seen = [x.absmax for x in shown]
        axes.hlines(spots, bounds, seen, color=_GRID, linewidth=3)
        axes.plot(bounds, spots, "o", color=_FIRST, markersize=6, label="largest bound in force")
        axes.plot(seen, spots, "D", color=_SECOND, markersize=4, label="largest value seen")
        if any(value > 0 for value in (*bounds, *seen)):
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
        labels = [f"{x.tensor} ({x.split})" for x in shown]
        _finish(axes, labels, "magnitude, units of the tensor")
        return _svg(figure, "clipping")


def _rc(name: str) -> dict[Any, Any]:
    return {**_RC, "svg.hashsalt": f"quantflow-{name}"}


def _bounded(value: float) -> float:
    """A bar needs a finite length: exact layers have an SQNR of infinity."""
    return min(max(value, -200.0), 200.0) if value == value else -200.0


def _canvas(bars: int) -> tuple[Figure, Axes]:
    # Not pyplot: it would pick a display and keep the figure.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 1.1 + 0.21 * max(bars, 1)), layout="constrained")
    figure.patch.set_visible(False)
    axes = figure.subplots()
    axes.patch.set_visible(False)
    return figure, axes


def _finish(axes: Axes, labels: Sequence[str], label: str) -> None:
    axes.set_yticks(range(len(labels)), [_short(text) for text in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlabel(label)
    axes.grid(axis="x", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, frameon=False)


def _short(text: str, width: int = 48) -> str:
    """The end of a long name, where names differ."""
    return text if len(text) <= width else "…" + text[1 - width :]


def _svg(figure: Figure, name: str) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    # Several plots share a page, so their ids must differ.
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{name}-", text)
    return re.sub(
        r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', r'<svg role="img" \1', text, count=1
    )
