"""Sheets as rich tables, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantflow.report.sheet import Sheet

if TYPE_CHECKING:
    from rich.table import Table

STYLES = {
    "pass": "green",
    "warn": "yellow",
    "fail": "bold red",
    "converted": "green",
    "not-converted": "yellow",
    "refused": "bold red",
    "failed": "bold red",
    "error": "bold red",
    "warning": "yellow",
}


def rich_table(sheet: Sheet) -> Table:
    """A table without a frame; long text cells fold, numbers never do."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(sheet.title, "bold"),
        title_justify="left",
        caption=Text(sheet.note, "dim") if sheet.note else None,
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    sheet = sheet.filled()
    for name, side in zip(sheet.head, sheet.align, strict=True):
        number = side == "r"
        table.add_column(
            Text(name), justify="right" if number else "left", no_wrap=number, overflow="fold"
        )
    for row in sheet.rows:
        table.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in row))
    return table
