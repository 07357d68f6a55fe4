"""Which script a text is written in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SCRIPTS = (
    "Latin",
    "Greek",
    "Cyrillic",
    "Hebrew",
    "Arabic",
    "Devanagari",
    "Thai",
    "Kana",
    "Hangul",
    "Han",
    "other",
    "none",
)
"""What a text can be of: `other` has letters of further scripts, `none` has no letter."""

_RANGES: tuple[tuple[int, int, str], ...] = (
    (0x0041, 0x005A, "Latin"),
    (0x0061, 0x007A, "Latin"),
    (0x00C0, 0x024F, "Latin"),
    (0x0370, 0x03FF, "Greek"),
    (0x0400, 0x052F, "Cyrillic"),
    (0x0590, 0x05FF, "Hebrew"),
    (0x0600, 0x077F, "Arabic"),
    (0x0900, 0x097F, "Devanagari"),
    (0x0E00, 0x0E7F, "Thai"),
    (0x1E00, 0x1EFF, "Latin"),
    (0x1F00, 0x1FFF, "Greek"),
    (0x3040, 0x30FF, "Kana"),
    (0x3400, 0x4DBF, "Han"),
    (0x4E00, 0x9FFF, "Han"),
    (0xAC00, 0xD7A3, "Hangul"),
    (0xF900, 0xFAFF, "Han"),
    (0x20000, 0x323AF, "Han"),
)
"""Blocks of letters (Unicode 15.1, Blocks.txt), ascending."""

_STARTS = np.array([first for first, _, _ in _RANGES])
_ENDS = np.array([last for _, last, _ in _RANGES])
_SCRIPT_OF = np.array([SCRIPTS.index(script) for _, _, script in _RANGES])


def script_of(text: str) -> int:
    """Position in `SCRIPTS` of the script that most letters of a text are of."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    block = np.searchsorted(_STARTS, points, side="right") - 1
    known = (block >= 0) & (points <= _ENDS[np.maximum(block, 0)])
    counts = np.bincount(_SCRIPT_OF[block[known]], minlength=len(SCRIPTS))
    if counts.any():
        return int(counts.argmax())
    return SCRIPTS.index("other" if any(map(str.isalpha, text)) else "none")


def scripts_of(texts: Sequence[str]) -> NDArray[np.int64]:
    """The script of every text, ``(N, len(SCRIPTS))`` int64: 1 for it, 0 for the others."""
    found = np.zeros((len(texts), len(SCRIPTS)), np.int64)
    found[np.arange(len(texts)), [script_of(text) for text in texts]] = 1
    return found
