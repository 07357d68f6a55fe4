"""Tables made column by column, where which columns there are depends on what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from quantflow.report.sheet import Sheet


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        head: its name, with the unit.
        cells: one a row.
        align: ``l`` for text, ``r`` for numbers.
        foot: what the last row has to say of it, such as a limit.
        spare: 0 where a narrow terminal has to show it; of the others, the largest goes first.
    """

    head: str
    cells: tuple[str, ...]
    align: Literal["l", "r"] = "r"
    foot: str = ""
    spare: int = 0


def sheet_of(
    title: str, columns: Sequence[Column], note: str = "", *, footed: bool = False
) -> Sheet:
    """The table of some columns, all of one length.

    Args:
        title, note: of the table.
        columns: from left to right.
        footed: whether the feet of the columns are a last row.

    Raises:
        ValueError: when the lengths differ.
    """
    rows = zip(*(column.cells for column in columns), strict=True)
    feet = [tuple(column.foot for column in columns)] if footed else []
    places = [i for i, column in enumerate(columns) if column.spare]
    return Sheet(
        title,
        head=tuple(column.head for column in columns),
        align="".join(column.align for column in columns),
        rows=(*rows, *feet),
        note=note,
        spare=tuple(sorted(places, key=lambda i: -columns[i].spare)),
        footed=footed,
    )
