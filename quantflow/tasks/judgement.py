"""What a model comes to in a task, kept so that two models can be compared unit by unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.comparison import TaskScore
from quantflow.numerics.bootstrap import bootstrap_interval, mean_interval
from quantflow.tasks.metrics import Values, weighted_mean

Draw = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A model's main figure over units (samples, queries, documents), and further ones.

    Attributes:
        count: number of units.
        statistic: the main figure over any units, given by their indices.
        values: ``(count,)``, a value a unit, where the main figure is their mean; else None.
        weights: ``(count,)``, how much each value counts; None where all count alike.
        details: further figures by name, each the mean of ``(count,)`` values.
    """

    count: int
    statistic: Callable[[Draw], float]
    values: Values | None = None
    weights: Values | None = None
    details: Mapping[str, Values] = field(default_factory=dict[str, Values])

    @classmethod
    def of_values(
        cls,
        values: Values,
        weights: Values | None = None,
        details: Mapping[str, Values] | None = None,
    ) -> Judgement:
        """One whose main figure is a mean."""

        def mean(draw: Draw) -> float:
            return weighted_mean(values[draw], None if weights is None else weights[draw])

        return cls(len(values), mean, values, weights, details or {})

    def score(self, *, seed: int) -> TaskScore:
        """The main figure with its 95% bootstrap interval over units; NaN where it is NaN."""
        value = self.statistic(np.arange(self.count))
        low = high = float("nan")
        if np.isfinite(value):
            low, high = bootstrap_interval(self.statistic, self.count, seed=seed)
        return TaskScore(value=value, low=low, high=high)

    def detail_scores(self, *, seed: int) -> dict[str, TaskScore]:
        """The further figures, the same way."""
        found = dict[str, TaskScore]()
        for name, values in self.details.items():
            low, high = mean_interval(values, seed=seed)
            found[name] = TaskScore(value=float(values.mean()), low=low, high=high)
        return found
