# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Figures as inline SVG: no fonts embedded, colours from the page, the same bytes every time."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from quantflow.report.svg_text import slim

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GRID, PASS, WARN, FAIL = "#010101", "#010102", "#010103", "#010104", "#010105"
SERIES: Final = ("#020101", "#020102", "#020103", "#020104", "#020105", "#020106")
"""Colours that tell things apart, in order of use."""
HEAT: Final = tuple(f"#03010{i}" for i in range(1, 9))
"""Colours of a scale, from what is worst on."""

_VARIABLES: Final = {
    INK: "ink",
    GRID: "grid",
    PASS: "pass",
    WARN: "warn",
    FAIL: "fail",
    **dict(
        zip(SERIES, ("first", "second", "third", "fourth", "fifth", "sixth"), strict=True),
    ),
    **{colour: f"heat{place}" for place, colour in enumerate(HEAT)},
}
"""matplotlib draws in these colours, which stand for variables of the page's style sheet."""

_STYLE: Final = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
}


def draw(name: str, height: float, paint: Callable[[Axes], None]) -> str:
    """Draw a figure.

    Args:
        name: unique on a page.
        height: in inches; the width is 9.
        paint: draws on the axes.
    """
    import matplotlib as mpl

    # Not pyplot: it would pick a display and keep the figure.
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {**_STYLE, "svg.hashsalt": f"quantflow-{name}"}
    with mpl.rc_context(style):
        figure = Figure(figsize=(9.0, height), layout="constrained")
        figure.patch.set_visible(False)
        axes = figure.subplots()
        axes.patch.set_visible(False)
        paint(axes)
        return _svg(figure, name)


def rows_height(rows: int) -> float:
    """Height in inches of a figure of so many rows."""
    return 1.1 + 0.21 * max(rows, 1)


def name_rows(axes: Axes, labels: Sequence[str], label: str) -> None:
    """Rows from top to bottom, with names on the left; `label` is what the other axis measures."""
    axes.set_yticks(range(len(labels)), [short_name(text) for text in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlabel(label)
    axes.grid(axis="x", linewidth=0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    add_legend(axes, columns=2)


def add_legend(axes: Axes, *, columns: int) -> None:
    """A legend above the axes, and what all plots have in common."""
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, frameon=False)


def short_name(text: str, width: int = 48) -> str:
    """The end of a long name, where names differ."""
    return text if len(text) <= width else "…" + text[1 - width :]


def _svg(figure: Figure, name: str) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = slim(text[text.index("<svg") :])
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    # Several plots share a page, so their ids must differ.
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{name}-", text)
    return re.sub(
        r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', r'<svg role="img" \1', text, count=1
    )
