"""What all benchmarks share: measured figures beside their targets, as a table and as JSON."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure.

    Attributes:
        name: what was measured, with its unit.
        value: the figure.
        target: what it should reach, or None for a figure without a target.
        better: which side of the target is good.
        within: the interval that it is expected in, or None.
    """

    name: str
    value: float
    target: float | None = None
    better: Literal["at least", "at most"] = "at least"
    within: tuple[float, float] | None = None

    @property
    def met(self) -> bool:
        """Whether the target is reached and the interval kept; true without them."""
        if self.within is not None and not self.within[0] <= self.value <= self.within[1]:
            return False
        if self.target is None:
            return True
        if self.better == "at least":
            return self.value >= self.target
        return self.value <= self.target


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def arguments(description: str) -> argparse.Namespace:
    """The command line that every benchmark has: ``--json FILE``."""
    return parser(description).parse_args()


def parser(description: str) -> argparse.ArgumentParser:
    """The same, to add options to."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return found


def finish(title: str, figures: Sequence[Figure], json_path: Path | None) -> int:
    """Print the figures, write them where asked; 1 when one misses its target, else 0."""
    table = Table(title=title)
    for column in ("figure", "measured", "target", ""):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for figure in figures:
        asked = list[str]()
        if figure.target is not None:
            asked.append(f"{figure.better} {figure.target:g}")
        if figure.within is not None:
            asked.append("{:g} to {:g}".format(*figure.within))
        mark = ("ok" if figure.met else "MISSED") if asked else ""
        table.add_row(figure.name, f"{figure.value:.6g}", ", ".join(asked), mark)
    Console(width=110).print(table)
    if json_path is not None:
        rows = [{**asdict(figure), "met": figure.met} for figure in figures]
        json_path.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(figure.met for figure in figures) else 1
