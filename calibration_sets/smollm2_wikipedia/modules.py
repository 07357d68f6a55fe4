"""Python source as rows of tokens: the modules of the running interpreter's standard library."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

from data import Record, rows

PARTS = 3
"""Calibration, deployment and evaluation."""


def calibration_rows() -> list[Record]:
    """Candidates for calibration: rows with `input_ids`, their `text` and the module as `title`."""
    return list(_rows_of_part(0))


def deployment_rows() -> list[Record]:
    """What stands for production: rows of other modules."""
    return list(_rows_of_part(1))


def evaluation_rows() -> list[Record]:
    """What accuracy is measured on: rows of yet other modules."""
    return list(_rows_of_part(2))


def _rows_of_part(part: int) -> Iterator[Record]:
    """Of every third module from number `part` on, in order of their names."""
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[part::PARTS]
    return rows((path.stem, path.read_text(encoding="utf-8")) for path in paths)
