"""Human similarity scores: a square matrix, from a text file, a .npy file or a user's function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow import user_code
from quantflow.artifacts.digest import file_digest
from quantflow.config import resolve_path
from quantflow.errors import fail


def load_scores(name: str, base: Path, count: int) -> NDArray[np.float64]:
    """The scores of all pairs of documents.

    Args:
        name: ``module:function``, a ``.npy`` file, or a text file with a row of numbers a line,
            separated by blanks, tabs or commas.
        base: directory that relative paths and modules start from.
        count: number of documents.

    Returns:
        ``(count, count)`` float64; only the part above the diagonal means anything.

    Raises:
        QuantflowError: QF104 and QF105 when nothing is there, QF309 when it is no such matrix.
    """
    try:
        scores = np.asarray(_read(name, base), np.float64)
    except (OSError, ValueError, TypeError, EOFError) as error:
        what = "it holds Python objects" if "allow_pickle" in str(error) else str(error)
        fail("QF309", f"the scores cannot be read: {what}", where=name)
    if scores.shape != (count, count):
        what = f"the task has {count} records, so scores must be ({count}, {count})"
        fail("QF309", f"{what}, found {scores.shape}", where=name)
    above = scores[np.triu_indices(count, 1)]
    bad = above.size - int(np.isfinite(above).sum())
    if bad:
        fail("QF309", f"{bad} scores above the diagonal are NaN or Inf", where=name)
    if above.size < 2 or above.min() == above.max():
        what = "the scores above the diagonal must not all be equal"
        fail("QF309", what, where=name, fix="give at least three records with different scores")
    return scores


def scores_digest(name: str, base: Path) -> str:
    """Digest of the file, or of the source of the function's module."""
    if _is_function(name):
        return user_code.source_digest(name, base)
    return file_digest(resolve_path(name, base))


def _read(name: str, base: Path) -> Any:
    if _is_function(name):
        function = user_code.load_function(name, base)
        try:
            return function()
        except (Exception, SystemExit) as error:
            fail("QF304", f"the function raised {type(error).__name__}: {error}", where=name)
    path = resolve_path(name, base)
    if not path.is_file():
        fail("QF104", f"no such file: {path}", where="task.scores", fix="check the path")
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    lines = path.read_text(encoding="utf-8").splitlines()
    return np.array([[float(x) for x in line.replace(",", " ").split()] for line in lines if line])


def _is_function(name: str) -> bool:
    return ":" in name.removeprefix("package:")
