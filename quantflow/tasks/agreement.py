"""Top-1 agreement: how often a model decides as fp32 does. It needs no labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import fail

METRIC = "top1_agreement"

Arrays = Mapping[str, NDArray[Any]]
Classes = NDArray[np.int64]


def classes_of(outputs: Arrays) -> Classes:
    """The decisions in a sample's outputs: those of the first one.

    Raises:
        QuantflowError: QF311 when it is no scores of at least two classes.
    """
    name, scores = next(iter(outputs.items()))
    if not scores.ndim or scores.shape[-1] < 2 or not np.issubdtype(scores.dtype, np.floating):
        fail(
            "QF311",
            f"output {name!r} has shape {scores.shape} and type {scores.dtype}",
            where="task.kind",
            fix="agreement needs a first output of scores, one per class along its last axis",
        )
    return top_classes(scores)


def top_classes(scores: NDArray[np.floating[Any]]) -> Classes:
    """The class of the highest score, the first one of equals; -1 where a score is not finite.

    Args:
        scores: ``(..., C)``.

    Returns:
        ``(...)`` int64.
    """
    return np.where(np.isfinite(scores).all(axis=-1), scores.argmax(axis=-1), -1)


def agreement(reference: Classes, other: Classes) -> float:
    """Share of a sample's decisions that are the reference's, 0-1.

    Args:
        reference, other: classes, -1 where there is none. Two of those do not agree.

    Raises:
        ValueError: when their shapes differ.
    """
    if reference.shape != other.shape:
        raise ValueError(f"decisions of shapes {reference.shape} and {other.shape}")
    same: NDArray[np.bool_] = (reference == other) & (other >= 0)
    return float(same.mean())
