"""Where a file that is asked for may be written: said before the work, not after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quantflow.errors import fail

_OF_THE_RUN = frozenset({"summary.json", "timings.json", "provenance.json", ".lock"})
_SOURCES = frozenset({".py", ".toml", ".onnx", ".npz", ".npy"})
"""What people write, or models and data: no command puts a result there."""


def check_output(path: Path, run: Path, read: Sequence[Path] = ()) -> None:
    """Refuse a file that nothing could, or should, be written to.

    Args:
        path: of the file; its folder is made.
        run: the run directory, whose stages keep their folders for themselves.
        read: files and directories that the command reads.

    Raises:
        QuantflowError: QF604.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        reason = _in_the_way(path) or _belongs_to_another(path, run, read)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    if reason:
        what = f"nothing can be written there: {reason}"
        fail("QF604", what, where=str(path), fix="choose another --output")


def _in_the_way(path: Path) -> str:
    import os

    if path.is_dir():
        return "it is a directory"
    if path.exists() and not path.is_file():
        return "it is no regular file"
    return "" if os.access(path.parent, os.W_OK) else "permission denied"


def _belongs_to_another(path: Path, run: Path, read: Sequence[Path]) -> str:
    from quantflow.report.artifacts import FOLDERS

    place = path.parent.resolve() / path.name
    folders = [(run / folder).resolve() for folder in FOLDERS]
    if any(folder == place or folder in place.parents for folder in folders):
        return "it is in the folder of a stage"
    if place.parent == run.resolve() and place.name in _OF_THE_RUN:
        return "it is a file of the run"
    if place.suffix.lower() in _SOURCES and path.exists():
        return f"it is there already, and a {place.suffix} file is nobody's output"
    for other in read:
        if other.is_dir() and other.resolve() in place.parents:
            return f"it is in {other}, which is read"
        if path.exists() and other.exists() and path.samefile(other):
            return "it is a file that is read"
    return ""
