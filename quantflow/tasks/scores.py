"""Human similarity scores: a square matrix, from a text file, a .npy file or a user's function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import fail
from quantflow.tasks.given_numbers import read_numbers


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
    scores = read_numbers(name, base, "task.scores", "QF309", _rows)
    if scores.dtype.kind not in "biuf":  # neither complex numbers nor times nor text
        fail("QF309", f"task.scores must hold real numbers, found {scores.dtype}", where=name)
    with np.errstate(over="ignore"):  # what is infinite then is refused below
        scores = scores.astype(np.float64)
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


def _rows(text: str) -> list[list[float]]:
    if "_" in text:  # which `float` reads as if it was not there
        raise ValueError("there is an underscore, which is in no number")
    lines = text.splitlines()
    return [[float(x) for x in line.replace(",", " ").split()] for line in lines if line]
