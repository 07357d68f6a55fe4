"""The search for the cheapest set of fp16 groups that meets the budget.

Forward, the most harmful groups go to fp16 one after the other; every set is measured as a whole,
so nothing is assumed about how accuracy moves with the number of groups (C38). Backward, groups
that turn out not to be needed go back to INT8, the most expensive first. A set meets the budget
when the lower end of its confidence interval does, for the samples it was chosen on flatter it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sweep_record import CurvePoint
from quantflow.numerics.bootstrap import mean_interval

Cosines = Callable[[frozenset[str]], NDArray[np.float64]]
"""Measures a set of fp16 groups: ``(S,)`` cosine of every search sample."""


@dataclass(slots=True)
class Search:
    """A search and what it has tried.

    Attributes:
        record: groups and layers.
        cosines: measures a set of fp16 groups.
        seed: of the intervals.
        curve: plans in the order they were tried, each set once.
    """

    record: ModelRecord
    cosines: Cosines
    seed: int
    curve: list[CurvePoint] = field(default_factory=list[CurvePoint])

    def run(self, ranking: Sequence[str], fixed: frozenset[str], budget: float) -> frozenset[str]:
        """The fp16 groups of the plan; the most accurate set tried when none meets the budget.

        Args:
            ranking: groups that may go to fp16, most harmful first.
            fixed: groups that are in fp16 whatever happens.
            budget: least mean cosine.
        """
        for chosen in growing(ranking, fixed):
            if meets(self._try(chosen, "forward"), budget):
                return self._shrink(chosen, fixed, budget)
        best = max(self.curve, key=lambda point: comparable(point.cosine_mean))
        return frozenset(best.fp16_groups)

    def mean(self, fp16: frozenset[str]) -> float:
        """Mean cosine of a set on the search samples."""
        return self._try(fp16, "forward").cosine_mean

    def extend(self, ranking: Sequence[str], chosen: frozenset[str]) -> None:
        """Try larger sets as well, doubling, so that the curve shows what more fp16 would bring."""
        rest = [group for group in ranking if group not in chosen]
        steps = sorted({min(2**i, len(rest)) for i in range(len(rest).bit_length() + 1)})
        for count in steps if rest else ():
            self._try(chosen | frozenset(rest[:count]), "beyond")

    def _shrink(
        self, chosen: frozenset[str], fixed: frozenset[str], budget: float
    ) -> frozenset[str]:
        macs = {group.name: group.macs for group in self.record.groups}
        for group in sorted(chosen - fixed, key=lambda name: (-macs[name], name)):
            if meets(self._try(chosen - {group}, "backward"), budget):
                chosen = chosen - {group}
        return chosen

    def _try(self, fp16: frozenset[str], step: str) -> CurvePoint:
        names = tuple(sorted(fp16))
        for point in self.curve:
            if point.fp16_groups == names:
                return point
        values = self.cosines(fp16)
        low, high = mean_interval(values, seed=self.seed)
        point = CurvePoint(
            fp16_groups=names,
            int8_mac_fraction=int8_share(self.record, fp16),
            cosine_mean=float(values.mean()),
            cosine_low=low,
            cosine_high=high,
            step=step,
        )
        self.curve.append(point)
        return point


def meets(point: CurvePoint, budget: float) -> bool:
    """Whether a point meets a budget with confidence; NaN never does."""
    return point.cosine_low >= budget


def growing(ranking: Sequence[str], fixed: frozenset[str]) -> Iterator[frozenset[str]]:
    """`fixed`, then one more of the ranking at a time."""
    chosen = fixed
    yield chosen
    for group in ranking:
        if group not in chosen:
            chosen = chosen | {group}
            yield chosen


def comparable(accuracy: float) -> float:
    """An accuracy that orders: NaN, the worst there is, compares as less than any number."""
    return float("-inf") if np.isnan(accuracy) else accuracy


def int8_share(record: ModelRecord, fp16: frozenset[str]) -> float:
    """Share of the layers' MACs that is INT8 when these groups are in fp16, 0-1."""
    total = sum(layer.macs for layer in record.layers)
    int8 = sum(group.macs for group in record.groups if group.name not in fp16)
    return int8 / total if total else 0.0
