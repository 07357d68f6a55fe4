"""Sheets as rich tables, for the terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quantflow.printable import printable
from quantflow.report.sheet import Sheet

if TYPE_CHECKING:
    from rich.console import Console
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


def fitted(sheet: Sheet, console: Console) -> Sheet:
    """Without as many of the columns that it can spare as are too many for the console's width."""
    from rich.measure import Measurement

    wide = console.options.update(width=10_000)
    full = fits = sheet.filled()
    while fits.spare and Measurement.get(console, wide, rich_table(fits)).maximum > console.width:
        fits = fits.without(fits.spare[:1])
    left_out = len(full.head) - len(fits.head)
    if not left_out:
        return full
    columns = f"{left_out} column{'s are' if left_out > 1 else ' is'}"
    said = f"{columns} left out at this width; {sheet.elsewhere}."
    return replace(fits, note=f"{sheet.note} {said}".strip())


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
        table.add_row(*(Text(printable(cell), STYLES.get(cell, "")) for cell in row))
    return table
