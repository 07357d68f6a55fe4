"""What a run has written, for comparison with another one."""

from __future__ import annotations

from pathlib import Path


def contents(directory: Path, *left_out: str) -> dict[str, bytes]:
    """Bytes of every file by its place, but of those that tell the time and of names left out."""
    skipped = {"timings.json", ".lock", *left_out}
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in skipped
    }
