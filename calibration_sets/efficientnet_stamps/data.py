"""Records of the set: views of Tux Paint's stamps, no picture in two of the three sources.

A record holds a picture's path and the number of a view of it; `pixels` makes the array when it is
asked for.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from views import View, render

Record = dict[str, View]

STAMPS = Path(__file__).resolve().parents[2] / "runs" / "data" / "tuxpaint-stamps-default"
SMALLEST = 20_000
"""Bytes of a file; smaller ones are mostly flat symbols."""
VIEWS = 6
"""Views of every picture."""


def candidates() -> list[Record]:
    """At hand for calibration: views of every third picture."""
    return _views_of_part(0)


def deployment() -> list[Record]:
    """What stands for production: views of other pictures."""
    return _views_of_part(1)


def evaluation() -> list[Record]:
    """What accuracy is measured on: views of yet other pictures."""
    return _views_of_part(2)


def pixels(record: Record) -> dict[str, NDArray[np.float32]]:
    """The model's input, ``(3, 224, 224)``: red, green and blue as ``(x - 127) / 128``."""
    rgb = np.asarray(render(record["image"]), np.float32)
    scaled = (rgb - np.float32(127)) / np.float32(128)
    return {"image": np.ascontiguousarray(scaled.transpose(2, 0, 1))}


@cache
def pictures() -> tuple[Path, ...]:
    """The pictures of more than `SMALLEST` bytes, in order of their paths.

    Raises:
        FileNotFoundError: when they are not there.
    """
    found = sorted(p for p in STAMPS.rglob("*.png") if p.stat().st_size > SMALLEST)
    if not found:
        raise FileNotFoundError("the pictures are missing: make data")
    return tuple(found)


def _views_of_part(part: int) -> list[Record]:
    # Neighbours are often of one kind (finches, houses), so pictures are dealt out in turn.
    chosen = [(i, path) for i, path in enumerate(pictures()) if i % 3 == part]
    return [{"image": View(path, i, k)} for i, path in chosen for k in range(VIEWS)]
