"""Accuracy of a classifier on labelled records: is the label the class of the highest score?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import fail

METRIC = "top1_accuracy"
TOP = 5
"""How many classes the other figure allows, where there are more."""

Arrays = Mapping[str, NDArray[Any]]


def label_rank(outputs: Arrays, label: int) -> float:
    """How many classes come before the label, by the scores of a sample.

    Args:
        outputs: of the model, whose first holds ``(C,)`` scores.
        label: the right class.

    Returns:
        0 where the label has the highest score; of equal scores the first class comes first, as
        `argmax` has it. Infinite where a score is not finite: nothing was decided.

    Raises:
        QuantflowError: QF311 when the output is no scores of classes, or of several decisions;
            QF316 when the label is none of the classes.
    """
    scores = _scores_of(outputs)
    if label >= len(scores):
        what = f"label {label} is none of the model's {len(scores)} classes, which count from 0"
        fail("QF316", what, where="task.labels")
    if not np.isfinite(scores).all():
        return float("inf")
    before = np.count_nonzero(scores > scores[label])
    return float(before + np.count_nonzero(scores[:label] == scores[label]))


def class_count(outputs: Arrays) -> int:
    """Number of classes that the first output scores."""
    return len(_scores_of(outputs))


def _scores_of(outputs: Arrays) -> NDArray[np.floating[Any]]:
    name, scores = next(iter(outputs.items()))
    if scores.ndim > 1:
        fail(
            "QF311",
            f"output {name!r} has shape {scores.shape} for a record: several decisions",
            where="task.kind",
            fix="classification needs a first output of (batch, classes); several positions a "
            "record are not supported: use kind 'function'",
        )
    if not scores.ndim or len(scores) < 2 or not np.issubdtype(scores.dtype, np.floating):
        fail(
            "QF311",
            f"output {name!r} has shape {scores.shape} and type {scores.dtype} for a record",
            where="task.kind",
            fix="classification needs a first output of (batch, classes) scores, two classes or "
            "more",
        )
    return scores
