"""A table as plain text cells, which the terminal and the HTML page both draw, and its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from quantflow.artifacts.record import Verdict

VERDICT_ORDER: Final[dict[Verdict, int]] = {"fail": 0, "warn": 1, "pass": 2}
"""Sorts the worst first."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table.

    Attributes:
        title: what it shows.
        head: names of the columns, with units.
        align: one letter a column, ``l`` for text and ``r`` for numbers.
        rows: one cell a column; the order is the message (worst first, or the pipeline's).
        note: what a reader must know to read it, or empty.
        spare: places of the columns that a narrow terminal leaves out, first to go first.
        footed: whether the last row is about the columns, such as their limits, and stays last.
        elsewhere: what has the columns that a narrow terminal leaves out.
    """

    title: str
    head: tuple[str, ...]
    align: str
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    spare: tuple[int, ...] = ()
    footed: bool = False
    elsewhere: str = "the report and --json have all"

    def __post_init__(self) -> None:
        widths = {len(self.head), len(self.align), *map(len, self.rows)}
        if len(widths) != 1:
            raise ValueError(f"ragged sheet {self.title!r}")

    def filled(self) -> Sheet:
        """Without text columns that say nothing in any row."""
        return self.without(
            i
            for i, side in enumerate(self.align)
            if side == "l" and self.rows and not any(row[i] for row in self.rows)
        )

    def without(self, columns: Iterable[int]) -> Sheet:
        """Without the columns at these places."""
        gone = frozenset(columns)
        kept = [i for i in range(len(self.head)) if i not in gone]
        return replace(
            self,
            head=tuple(self.head[i] for i in kept),
            align="".join(self.align[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in self.rows),
            spare=tuple(kept.index(i) for i in self.spare if i not in gone),
        )

    def first(self, count: int, more: str = "") -> Sheet:
        """The first `count` rows; the note says how many there are, and `more` how to see them."""
        if len(self.rows) <= count:
            return self
        counted = f"{count} of {len(self.rows)} rows{f'; {more}' if more else ''}."
        return replace(self, rows=self.rows[:count], note=f"{counted} {self.note}".strip())


def cosine_text(value: float) -> str:
    """A cosine with as many digits as tell it from 1."""
    distance = 1.0 - value
    tells = 1e-10 < distance < 5e-6  # what is closer is rounding of float64
    digits = 1 + math.floor(-math.log10(distance)) if tells else 6
    return f"{value:.{digits}f}"


def interval_text(low: float, high: float) -> str:
    """An interval of cosines: ``0.994554 to 0.995674``."""
    return f"{cosine_text(low)} to {cosine_text(high)}"


def number_text(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}"


def score_text(value: float) -> str:
    """A task's figure in any unit: four digits behind the point, of a small one four in all."""
    return number_text(value) if 0 < abs(value) < 0.1 else f"{value:.4f}"


def db_text(value: float) -> str:
    """Decibels with one digit."""
    return f"{value:.1f}"


def share_text(value: float, digits: int = 2) -> str:
    """A fraction as a percentage; what is not zero or all never reads as such."""
    step = 10.0**-digits
    if 0 < value < step / 100:
        return f"<{step:.{digits}f}%"
    if 1 - step / 100 < value < 1:
        return f">{100 - step:.{digits}f}%"
    return f"{100 * value:.{digits}f}%"


def count_text(value: int) -> str:
    """A whole number with thousands apart."""
    return f"{value:,}"


def shape_text(shape: Sequence[int | str]) -> str:
    """``(batch, length, 384)``."""
    return "(" + ", ".join(map(str, shape)) + ")"


def dims_text(dims: Mapping[str, int]) -> str:
    """``batch=1, length=128``."""
    return ", ".join(f"{name}={size}" for name, size in dims.items())
