"""What a run has written, for comparison with another one."""

from __future__ import annotations

import re
from pathlib import Path

_TIMES = re.compile(rb'<table[^>]*aria-label="Stages".*?</table>', re.DOTALL)
"""The page's table of how long stages took."""


def contents(directory: Path, *left_out: str) -> dict[str, bytes]:
    """Bytes of every file by its place, but of what tells the time and of names left out."""
    skipped = {"timings.json", ".lock", *left_out}
    return {
        path.relative_to(directory).as_posix(): _TIMES.sub(b"", path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in skipped
    }
