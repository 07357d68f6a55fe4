"""Where `profile` and `watch` may write: said before the work, not after it."""

from __future__ import annotations

from pathlib import Path

from quantflow.errors import fail


def check_output(path: Path, run: Path, given: Path | None = None) -> None:
    """Refuse a file that nothing could, or should, be written to.

    Args:
        path: of the file; its folder is made.
        run: the run directory, whose stages keep their folders for themselves.
        given: a profile that is read.

    Raises:
        QuantflowError: QF604.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        reason = _in_the_way(path) or _belongs_to_another(path, run, given)
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


def _belongs_to_another(path: Path, run: Path, given: Path | None) -> str:
    from quantflow.report.artifacts import FOLDERS

    place = path.parent.resolve() / path.name
    folders = [(run / folder).resolve() for folder in FOLDERS]
    if any(folder == place or folder in place.parents for folder in folders):
        return "it is in the folder of a stage"
    if given is not None and path.exists() and given.exists() and path.samefile(given):
        return "it is the profile that is read"
    return ""
