"""A metric over a set: what a model comes to, and how much worse that is than the float model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.comparison import TaskScore
from quantflow.artifacts.sweep_record import Measure
from quantflow.numerics.bootstrap import bootstrap_interval
from quantflow.tasks.criteria import Criterion
from quantflow.tasks.metrics import Judged, Metric, Values, weighted_mean


class Figures:
    """A metric of every sample of a set, gathered as a model's outputs come by.

    Only two numbers of a sample are kept: the logits of a text take 100 MB and more.

    Args:
        metric: what is gathered.
        samples: how many there are.

    Attributes:
        metric: as given.
        values: ``(S,)`` float64, NaN for what has not come by.
        weights: ``(S,)`` float64, how much each counts.
    """

    def __init__(self, metric: Metric, samples: int) -> None:
        self.metric = metric
        self.values = np.full(samples, np.nan)
        self.weights = np.ones(samples)

    def add(self, index: int, judged: Judged) -> None:
        """Note the sample at a position of the set."""
        self.values[index] = self.metric.value(judged)
        if self.metric.weight is not None:
            self.weights[index] = self.metric.weight(judged)

    def score(self, *, seed: int) -> TaskScore:
        """What the samples come to, with its 95% bootstrap interval over samples."""
        value = self.metric.over_samples(self.values, self.weights)
        low, high = _interval(self.metric.over_samples, self.values, self.weights, seed)
        return TaskScore(value=value, low=low, high=high)


def measure(
    criterion: Criterion,
    values: Values,
    of_float: Values,
    weights: Values | None = None,
    *,
    seed: int,
) -> Measure:
    """A model by one criterion, with the 95% bootstrap interval of its damage over samples.

    Both models have the same samples, so that the interval is of their difference and not of how
    samples differ.

    Args:
        criterion: what is measured, and its limit.
        values: ``(S,)`` of the model.
        of_float: ``(S,)`` of the float model.
        weights: ``(S,)``, how much each sample counts; None where all count alike.
        seed: of the bootstrap.
    """
    weights = np.ones(len(values)) if weights is None else weights
    damage = criterion.metric.damage(values, of_float)
    low, high = _interval(weighted_mean, damage, weights, seed)
    return Measure(
        metric=criterion.name,
        value=criterion.metric.over_samples(values, weights),
        damage=weighted_mean(damage, weights),
        low=low,
        high=high,
        limit=criterion.limit,
    )


def _interval(
    statistic: Callable[[Values, Values], float], values: Values, weights: Values, seed: int
) -> tuple[float, float]:
    """NaN when a value that counts is not finite: resamples that miss it would say all is well."""
    if not np.isfinite(values[weights > 0]).all():
        return float("nan"), float("nan")

    def resampled(draw: NDArray[np.intp]) -> float:
        return statistic(values[draw], weights[draw])

    return bootstrap_interval(resampled, len(values), seed=seed)
