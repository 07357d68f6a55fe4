"""Two precisions in the same task: how much worse one is, and whether so few samples can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np

from quantflow.artifacts.comparison import PairedScore, Precision
from quantflow.config import TaskKind
from quantflow.numerics.mcnemar import discordant_counts, mcnemar_p
from quantflow.numerics.paired import Paired, paired_means, paired_statistics
from quantflow.numerics.power import mean_seen, samples_for_mean, samples_for_share, share_seen
from quantflow.numerics.tango import tango_interval
from quantflow.tasks.judgement import Judgement
from quantflow.tasks.metrics import Values

PAIRS: tuple[tuple[Precision, Precision], ...] = (
    ("int8", "fp16"),
    ("int8", "fp32"),
    ("fp16", "fp32"),
)
"""What is compared with what."""

_YES_OR_NO: tuple[TaskKind, ...] = ("classification", "agreement", "function")
"""Kinds whose values may be 1 for right and 0 for wrong."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """How two precisions are compared in a task.

    Attributes:
        kind: of the task.
        higher_is_better: which way its main figure points.
        drop: of the figure, in the unit of the damage, that it is told for how many samples show
            it; None where there is none to go by.
        seed: of the bootstrap.
    """

    kind: TaskKind
    higher_is_better: bool
    drop: float | None
    seed: int

    def __call__(
        self, model: Precision, baseline: Precision, found: Mapping[Precision, Judgement]
    ) -> PairedScore:
        """The damage of one precision against another, over the units that both were given."""
        of_model, of_baseline = found[model], found[baseline]
        # The one comes first whose figure is the larger where the model is worse.
        first, second = of_baseline, of_model
        if not self.higher_is_better:
            first, second = second, first
        x, y, weights = first.values, second.values, of_model.weights
        if x is None or y is None:
            statistics = first.statistic, second.statistic
            paired = paired_statistics(*statistics, of_model.count, seed=self.seed)
            return self._of_spread(model, baseline, paired, of_model.count)
        if self.kind in _YES_OR_NO and weights is None and _binary(x) and _binary(y):
            # A 1 of the first alone is what the model has lost, be 1 right or wrong.
            return self._of_answers(model, baseline, *discordant_counts(y, x), len(x))
        paired = paired_means(x, y, weights, seed=self.seed)
        count = len(x) if weights is None else int(np.count_nonzero(weights > 0))
        return self._of_spread(model, baseline, paired, count)

    def _of_spread(
        self, model: Precision, baseline: Precision, paired: Paired, count: int
    ) -> PairedScore:
        # Where no sample differs, its spread says nothing about others.
        spread = paired.spread or float("nan")
        return PairedScore(
            metric=self.kind,
            model=model,
            baseline=baseline,
            samples=count,
            damage=paired.difference,
            low=paired.low,
            high=paired.high,
            asked_drop=self.drop,
            samples_needed=_needed(self.drop and samples_for_mean(self.drop, spread)),
            detectable_drop=mean_seen(count, spread) if count else float("nan"),
        )

    def _of_answers(
        self, model: Precision, baseline: Precision, lost: int, gained: int, count: int
    ) -> PairedScore:
        share = (lost + gained) / count
        low, high = tango_interval(lost, gained, count)
        return PairedScore(
            metric=self.kind,
            model=model,
            baseline=baseline,
            samples=count,
            damage=(lost - gained) / count,
            low=low,
            high=high,
            lost=lost,
            gained=gained,
            p_value=mcnemar_p(lost, gained),
            asked_drop=self.drop,
            samples_needed=_needed(self.drop and samples_for_share(self.drop, share)),
            detectable_drop=share_seen(count, share),
        )


def _binary(values: Values) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _needed(samples: float | None) -> int | None:
    return int(samples) if samples and isfinite(samples) else None
