"""Results on stdout, remarks on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantflow.report.sheet import Sheet

PIPE_WIDTH = 160
"""Columns of a table that does not go to a terminal."""


def print_sheets(sheets: Iterable[Sheet]) -> None:
    """Draw tables on stdout; empty ones are left out."""
    from rich.console import Console

    from quantflow.report.tables import fitted, rich_table

    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    for sheet in sheets:
        if sheet.rows:
            console.print(rich_table(fitted(sheet, console)))


def print_json(value: Any) -> None:
    """One strict JSON object on stdout: numbers are finite, as in `Record.to_tree`."""
    print(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def remark(text: str) -> None:
    """A line on stderr."""
    print(text, file=sys.stderr, flush=True)
