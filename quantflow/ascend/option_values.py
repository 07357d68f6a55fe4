"""What is wrong with the value of an option of atc: one small function a syntax.

Each takes the value as text and says what is wrong with it, with the code of atc's answer; an empty
answer means that atc takes it. From atc's sources and manual (2026).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

ValueRule = Callable[[str], str]

OUTPUT_TYPES: Final = ("FP32", "FP16", "UINT8", "INT8")
LEGAL_PATH: Final = re.compile(r"[\w./-]+")
"""Letters, digits and ``_ - . /``; atc takes Chinese characters, too, and so does ``\\w``."""

_MIN_GEARS: Final = 2
_MAX_GEARS: Final = 100
_LONGEST_NUMBER: Final = 18
"""Digits that surely fit into 64 bits."""
_DIM: Final = r"(?:-1|\d{1,18}(?:~\d{1,18})?)"
_SHAPE_RANGE: Final = re.compile(rf"(?:[^:;\[\]]+:)?\[{_DIM}(?:,{_DIM})*\]")


def anything(text: str) -> str:
    """Any text will do."""
    return ""


def integer(low: int, high: int) -> ValueRule:
    """A whole number from `low` to `high` (E10001)."""

    def rule(text: str) -> str:
        digits = text.removeprefix("-")
        if _is_number(digits) and low <= int(text) <= high:
            return ""
        return f"is no whole number from {low} to {high} (E10001)"

    return rule


def batch_gears(text: str) -> str:
    """``1,2,4``: 2 to 100 different batch sizes (E10003, E10035 to E10039)."""
    if not re.fullmatch(r"[0-9,]+", text):
        return "is no list of batch sizes with commas between them (E10003)"
    return _gears([[size] for size in text.removesuffix(",").split(",")])


def image_gears(text: str) -> str:
    """``224,224;448,448``: heights and widths (E10003, E10020, E10035 to E10039)."""
    if not re.fullmatch(r"[0-9,; ]+", text):
        return "is no list such as 224,224;448,448 (E10003)"
    gears = _groups(text)
    if any(len(gear) != 2 for gear in gears):
        return "has a gear that is no height and width (E10020)"
    return _gears(gears)


def dims_gears(text: str) -> str:
    """``1,128;8,128``: a value for each -1 of the shapes (E10003, E10035 to E10039)."""
    if not re.fullmatch(r"[0-9,; ]+", text):
        return "is no list such as 1,128;8,128 (E10003)"
    return _gears(_groups(text))


def shape_ranges(text: str) -> str:
    """``name:[1~8,3,-1];other:[1]``, or the brackets alone in the order of the inputs (E10048)."""
    entries = text.split(";")
    if all(_SHAPE_RANGE.fullmatch(entry.strip()) for entry in entries):
        return ""
    return "is no list such as name:[1~8,3,-1];other:[1,3] (E10048)"


def output_type(text: str) -> str:
    """``FP16`` for all outputs, or ``node:0:FP16;other:1:FP32`` (E10001, E10014)."""
    if ":" not in text:
        return "" if text in OUTPUT_TYPES else f"is none of {', '.join(OUTPUT_TYPES)} (E10001)"
    for entry in text.split(";"):
        parts = [part.strip() for part in entry.split(":")]
        if len(parts) != 3 or not parts[0]:
            return f"has {entry!r}, which is not node:index:type (E10001)"
        if not _is_number(parts[1]):
            return f"has the index {parts[1]!r}, which is no number (E10014)"
        if parts[2] not in OUTPUT_TYPES:
            return f"has {parts[2]!r}, which is none of {', '.join(OUTPUT_TYPES)} (E10001)"
    return ""


def out_nodes(text: str) -> str:
    """``node:0;other:1``, or names of output tensors, but not both (E10001)."""
    entries = [entry.split(":") for entry in text.split(";")]
    if len({len(entry) for entry in entries}) > 1:
        return "mixes node:index with names of tensors (E10001)"
    for entry in entries:
        if len(entry) > 2 or not entry[0].strip():
            return f"has {':'.join(entry)!r}, which is neither node:index nor a name (E10001)"
        if len(entry) == 2 and not _is_number(entry[1].strip()):
            return f"has the index {entry[1]!r}, which is no number (E10001)"
    return ""


def directory(text: str) -> str:
    """A directory, which need not exist yet; a relative one starts where atc does."""
    if not LEGAL_PATH.fullmatch(text):
        return "has characters other than letters, digits and _ - . /"
    path = Path(text)
    return "is no directory" if path.is_absolute() and path.exists() and not path.is_dir() else ""


def _groups(text: str) -> list[list[str]]:
    return [
        [dim.strip() for dim in gear.split(",")]
        for gear in text.strip().removesuffix(";").split(";")
    ]


def _gears(gears: Sequence[Sequence[str]]) -> str:
    """What is wrong with gears whose characters are right."""
    if not all(_is_number(dim) for gear in gears for dim in gear):
        return "has an empty place, or a number that is too large (E10003)"
    if len(gears) < _MIN_GEARS:
        return f"has fewer than {_MIN_GEARS} gears (E10035)"
    if len(gears) > _MAX_GEARS:
        return f"has more than {_MAX_GEARS} gears (E10036)"
    if len({len(gear) for gear in gears}) > 1:
        return "has gears of different length (E10037)"
    sizes = [tuple(int(dim) for dim in gear) for gear in gears]
    if any(size == 0 for gear in sizes for size in gear):
        return "has a size of 0 (E10038)"
    return "has the same gear twice (E10039)" if len(set(sizes)) < len(sizes) else ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
