"""Metrics of one sample's outputs: what groups are ranked by and plans are held to.

A metric is a function and the direction it points in; `damage` turns either direction into a number
that is larger for a worse output, and 0 on average for one as good as the float model's (C36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quantflow.config import TaskConfig
from quantflow.numerics.output_metrics import (
    noise_to_signal,
    output_cosine,
    relative_error,
    softmax_kl,
)
from quantflow.numerics.token_loss import mean_token_loss
from quantflow.runtime.bucket_run import as_vector
from quantflow.tasks.agreement import agreement, classes_of
from quantflow.tasks.perplexity import logits_of, perplexity_of_loss
from quantflow.tasks.user_figure import load_figure

Arrays = Mapping[str, NDArray[Any]]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judged:
    """One sample, and what two models made of it; arrays without batch axis and padding.

    Attributes:
        id: of the sample.
        inputs: what both were given.
        reference: the float model's outputs; empty for a metric that does not ask for them.
        outputs: of the model that is judged.
    """

    id: str
    inputs: Arrays
    reference: Arrays
    outputs: Arrays


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of one sample, and how samples add up.

    Attributes:
        value: the figure.
        higher_is_better: which way it points.
        perfect: its value where the outputs are the float model's; None where that differs from
            sample to sample, and does not depend on the float model's outputs.
        of_mean: what the mean over samples comes to, for people.
        weight: how much a sample counts in that mean, 0 or more; None where all count alike.
    """

    value: Callable[[Judged], float]
    higher_is_better: bool
    perfect: float | None
    of_mean: Callable[[float], float] = float
    weight: Callable[[Judged], float] | None = None

    @property
    def needs_reference(self) -> bool:
        """Whether it compares with the float model's outputs."""
        return self.perfect is not None

    def over_samples(self, values: Values, weights: Values | None = None) -> float:
        """What ``(S,)`` values come to, for people; every sample counts alike without weights."""
        return self.of_mean(weighted_mean(values, weights))

    def damage(self, values: Values, of_float: Values) -> Values:
        """Distance from the float model's values in the direction of worse, sample by sample."""
        with np.errstate(invalid="ignore"):  # infinite in both gives NaN
            return of_float - values if self.higher_is_better else values - of_float


def weighted_mean(values: Values, weights: Values | None = None) -> float:
    """Mean of ``(S,)`` values by ``(S,)`` weights, NaN where all of these are 0.

    A value without weight counts for nothing, NaN though it be.
    """
    with np.errstate(invalid="ignore"):
        if weights is None:
            return float(values.mean())
        total = float(weights.sum())
        return float((values * weights).sum(where=weights > 0)) / total if total else float("nan")


def decibels(ratio: float) -> float:
    """``-10 log10`` of a ratio of noise to signal power: their distance in dB."""
    with np.errstate(divide="ignore"):
        return float(-10 * np.log10(ratio))


def _of_outputs(
    function: Callable[[NDArray[np.float32], NDArray[np.float32]], float], judged: Judged
) -> float:
    return function(*(as_vector(dict(x)) for x in (judged.reference, judged.outputs)))


def _of_logits(judged: Judged) -> float:
    """Of the first float output alone: several as one vector have no softmax to speak of."""
    found = ([x for x in y.values() if _is_float(x)] for y in (judged.reference, judged.outputs))
    return softmax_kl(*(floats[0].astype(np.float32, copy=False) for floats in found))


def _is_float(array: NDArray[Any]) -> bool:
    return np.issubdtype(array.dtype, np.floating)


def _agreement(judged: Judged) -> float:
    return agreement(classes_of(judged.reference), classes_of(judged.outputs))


METRICS: Final[dict[str, Metric]] = {
    "cosine": Metric(partial(_of_outputs, output_cosine), True, 1.0),
    "sqnr": Metric(partial(_of_outputs, noise_to_signal), False, 0.0, decibels),
    "relative_error": Metric(partial(_of_outputs, relative_error), False, 0.0),
    "kl": Metric(_of_logits, False, 0.0),
    "agreement": Metric(_agreement, True, 1.0),
}
"""Metrics of outputs against the float model's, by their names in the configuration. The values of
`sqnr` are ratios of noise to signal power, whose mean is told in dB."""


def perplexity_metric(tokens: str) -> Metric:
    """Perplexity of the text that is in the input `tokens`, each token but a sample's first.

    Its values are mean losses in nats and its weights numbers of tokens, so that the mean damage is
    the logarithm of the ratio to the float model's perplexity.
    """

    def loss(judged: Judged) -> float:
        ids = judged.inputs[tokens]
        return mean_token_loss(ids, logits_of(judged.outputs, ids))

    def foretold(judged: Judged) -> float:
        return float(max(len(judged.inputs[tokens]) - 1, 0))

    return Metric(loss, False, None, perplexity_of_loss, foretold)


def user_metric(name: str, base: Path, *, higher_is_better: bool) -> Metric:
    """A user's own figure of a sample; see `load_figure`.

    Args:
        name: ``module:function``.
        base: directory of the configuration.
        higher_is_better: which way the figure points.

    Raises:
        QuantflowError: QF105 when there is no such function.
    """
    figure = load_figure(name, base)

    def value(judged: Judged) -> float:
        return figure(judged.id, judged.inputs, judged.outputs)

    return Metric(value, higher_is_better, None)


def task_metric(task: TaskConfig, base: Path) -> Metric | None:
    """The metric of a task on evaluation samples; None of one that has records of its own."""
    if task.kind == "perplexity":
        return perplexity_metric(task.tokens)
    if task.kind == "agreement":
        return METRICS["agreement"]
    if task.kind == "function":
        assert task.function is not None and task.higher_is_better is not None
        return user_metric(task.function, base, higher_is_better=task.higher_is_better)
    return None
