"""Results on stdout, remarks on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from quantflow.printable import printable

if TYPE_CHECKING:
    from quantflow.report.sheet import Sheet

LONGEST_LINE = 4000
"""Characters of a line that is printed."""

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


def say(text: object) -> None:
    """Lines on stdout; names in them may come from files, and must not steer the terminal."""
    print(_fit(text))


def remark(text: object) -> None:
    """Lines on stderr, likewise."""
    print(_fit(text), file=sys.stderr, flush=True)


def _fit(text: object) -> str:
    return "\n".join(printable(line, LONGEST_LINE) for line in str(text).split("\n"))
