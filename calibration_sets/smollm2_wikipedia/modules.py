"""Python source as rows of tokens: the modules of the running interpreter's standard library."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data import ROW
from model import tokenizer

PARTS = 3
"""Calibration, deployment and evaluation."""

Record = dict[str, Any]


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
    """Every third module from number `part` on, in order of their names, cut every `ROW` tokens."""
    encoder = tokenizer()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[part::PARTS]:
        text = path.read_text(encoding="utf-8")
        found = encoder.encode(text)
        for start in range(0, len(found.ids) - ROW + 1, ROW):
            first, last = found.offsets[start], found.offsets[start + ROW - 1]
            yield {
                "input_ids": found.ids[start : start + ROW],
                "text": text[first[0] : last[1]],
                "title": path.stem,
            }
