"""A section of the HTML page."""

from __future__ import annotations

from dataclasses import dataclass

from quantflow.report.sheet import Sheet


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        anchor, title: of its heading.
        sheets: its tables; empty ones are left out.
        plot: SVG, or empty.
        plot_text: what the plot shows, in words.
        code: command lines, one a block.
    """

    anchor: str
    title: str
    sheets: tuple[Sheet, ...]
    plot: str = ""
    plot_text: str = ""
    code: tuple[str, ...] = ()


def section(
    anchor: str,
    title: str,
    *sheets: Sheet,
    plot: str = "",
    plot_text: str = "",
    code: tuple[str, ...] = (),
) -> Section:
    """A section without what is empty."""
    filled = tuple(sheet.filled() for sheet in sheets if sheet.rows)
    return Section(anchor, title, filled, plot, plot_text, code)
