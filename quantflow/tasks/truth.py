"""What a task's own records are judged by: scores, labels, or which documents are relevant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.config import TaskConfig
from quantflow.errors import fail
from quantflow.tasks.given_numbers import load_indices
from quantflow.tasks.scores import load_scores


def load_truth(task: TaskConfig, base: Path, sizes: Mapping[str, int]) -> NDArray[Any]:
    """What the records of a task are judged by.

    Args:
        task: one that has records of its own.
        base: directory that relative paths and modules start from.
        sizes: number of records by set: of `task`, or of `queries` and `documents`.

    Returns:
        Of `similarity`, ``(n, n)`` float64 scores; of `classification`, ``(n,)`` int64 classes; of
        `retrieval`, ``(queries,)`` int64 places among the documents.

    Raises:
        QuantflowError: QF104, QF105 and QF304 when they cannot be had, QF309 or QF316 when they do
            not fit the records.
    """
    if task.scores is not None:
        return load_scores(task.scores, base, sizes["task"])
    if task.labels is not None:
        return load_indices(task.labels, base, sizes["task"], "task.labels")
    queries, documents = sizes["queries"], sizes["documents"]
    if task.relevant is not None:
        return load_indices(task.relevant, base, queries, "task.relevant", below=documents)
    if queries > documents:
        what = f"there are {queries} queries and {documents} documents"
        fix = "give every query its document in the same place, or name them in task.relevant"
        fail("QF316", what, where="task.documents", fix=fix)
    return np.arange(queries)
