"""Top-1 agreement: how often a model decides as fp32 does. It needs no labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import fail
from quantflow.numerics.bootstrap import mean_interval

METRIC = "top1_agreement"

Arrays = Mapping[str, NDArray[Any]]
Classes = NDArray[np.int64]


class Decisions:
    """A model's decisions on every sample of a set, gathered as its outputs come by.

    Attributes:
        classes: of every sample, in the order of the set: those of the first output.
    """

    def __init__(self) -> None:
        self._classes = dict[int, Classes]()

    def add(self, index: int, inputs: Arrays, outputs: Arrays) -> None:
        """Note one sample.

        Args:
            index: its position in the set.
            inputs: not used.
            outputs: arrays without batch axis and padding.

        Raises:
            QuantflowError: QF311 when the first output is no scores of at least two classes.
        """
        del inputs
        name, scores = next(iter(outputs.items()))
        if not scores.ndim or scores.shape[-1] < 2 or not np.issubdtype(scores.dtype, np.floating):
            fail(
                "QF311",
                f"output {name!r} has shape {scores.shape} and type {scores.dtype}",
                where="task.kind",
                fix="agreement needs a first output of scores, one per class along its last axis",
            )
        self._classes[index] = top_classes(scores)

    @property
    def classes(self) -> list[Classes]:
        return [self._classes[index] for index in sorted(self._classes)]


def top_classes(scores: NDArray[np.floating[Any]]) -> Classes:
    """The class of the highest score, the first one of equals; -1 where a score is not finite.

    Args:
        scores: ``(..., C)``.

    Returns:
        ``(...)`` int64.
    """
    return np.where(np.isfinite(scores).all(axis=-1), scores.argmax(axis=-1), -1)


def agreements(reference: Sequence[Classes], other: Sequence[Classes]) -> NDArray[np.float64]:
    """Share of each sample's decisions that are the reference's, ``(N,)``, 0-1.

    Args:
        reference, other: classes of N samples, -1 where there is none. Two of those do not agree.

    Raises:
        ValueError: when the shapes of a sample's classes differ.
    """
    shares = np.empty(len(reference))
    for index, (a, b) in enumerate(zip(reference, other, strict=True)):
        if a.shape != b.shape:
            raise ValueError(f"decisions of shapes {a.shape} and {b.shape}")
        shares[index] = np.mean((a == b) & (b >= 0))
    return shares


def agreement_score(
    reference: Sequence[Classes], other: Sequence[Classes], *, seed: int
) -> tuple[float, float, float]:
    """Mean of `agreements` over samples and its 95% bootstrap interval.

    With one decision a sample, as in classification, the mean is the share of samples whose class
    stays; with several, as along a line of text, samples and not decisions are resampled.

    Args:
        reference, other: see `agreements`; at least one sample.
        seed: of the bootstrap.

    Returns:
        Mean, lower and upper end.
    """
    shares = agreements(reference, other)
    low, high = mean_interval(shares, seed=seed)
    return float(shares.mean()), low, high
