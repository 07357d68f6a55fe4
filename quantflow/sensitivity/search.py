"""The search for the cheapest set of fp16 groups that meets the budget.

Sets grow along several orders of the groups, a few of them first and then every one where the first
that meets the budget was passed over; last, groups that turn out not to be needed go back to INT8,
those that save most first. Every set is measured as a whole, so nothing is assumed about how
accuracy moves with the number of groups (C38). A set meets the budget when the whole confidence
interval of its damage does, for the samples it was chosen on flatter it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sweep_record import CurvePoint, Measure
from quantflow.sensitivity.cost import CostModel
from quantflow.sensitivity.measures import shortfall

Fp16 = frozenset[str]
Trial = Callable[[Fp16], tuple[Measure, ...]]
"""Measures a set of fp16 groups on the search samples."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan may not go beyond, whatever its accuracy.

    Attributes:
        int8_mac_fraction: least share of MACs in INT8, 0-1.
        fp16_groups: most groups in fp16; None for any number.
    """

    int8_mac_fraction: float = 0.0
    fp16_groups: int | None = None

    def allow(self, record: ModelRecord, fp16: Fp16) -> bool:
        """Whether a plan is within them."""
        few = self.fp16_groups is None or len(fp16) <= self.fp16_groups
        return few and int8_share(record, fp16) >= self.int8_mac_fraction


@dataclass(slots=True)
class Search:
    """A search and what it has tried.

    Attributes:
        record: groups and layers.
        cost: of every group.
        limits: sets beyond them are not tried.
        trial: measures a set.
        curve: plans in the order they were tried, each set once.
    """

    record: ModelRecord
    cost: CostModel
    limits: Limits
    trial: Trial
    curve: list[CurvePoint] = field(default_factory=list[CurvePoint])

    def run(self, orders: Sequence[Sequence[str]], start: Fp16, share: float = 1.0) -> Fp16:
        """The cheapest set found that meets the budget, or the one that comes nearest to it.

        Args:
            orders: of groups that may go to fp16, the most promising first. Along the first one
                the whole curve is measured.
            start: groups that are in fp16 whatever happens.
            share: of every allowed damage, how much to make use of, 0-1.
        """
        self._try(start, "curve")
        found = [
            self._cheapest(order, start, share, whole=number == 0)
            for number, order in enumerate(orders)
        ]
        cheap = [fp16 for fp16 in found if fp16 is not None]
        if not cheap:
            return self.nearest()
        return self._shrink(min(cheap, key=self._cost), start, share)

    def nearest(self) -> Fp16:
        """Of all sets tried, the one that comes nearest to the budget, the cheapest of equals."""
        point = min(self.curve, key=lambda x: (shortfall(x.measures), x.cost))
        return frozenset(point.fp16_groups)

    def measures(self, fp16: Fp16) -> tuple[Measure, ...]:
        """A set on the search samples."""
        return self._try(fp16, "curve").measures

    def _cheapest(
        self, order: Sequence[str], start: Fp16, share: float, *, whole: bool
    ) -> Fp16 | None:
        """The first set along an order that meets the budget."""
        sets = [fp16 for fp16 in growing(order, start) if self.limits.allow(self.record, fp16)]
        passed = 0
        first: int | None = None
        for place in strides(len(sets)):
            if not self._meets(sets[place], "curve", share):
                passed = passed if first is not None else place + 1
            elif first is None:
                first = place
                if not whole:
                    break
        if first is None:
            # None of these says anything about those between them, unless accuracy is monotone.
            rest = sets if whole else []
            return next((x for x in rest if self._meets(x, "refine", share)), None)
        between = (x for x in sets[passed:first] if self._meets(x, "refine", share))
        return next(between, sets[first])

    def _shrink(self, chosen: Fp16, start: Fp16, share: float) -> Fp16:
        dear = {name for name in chosen - start if self.cost.saved(name) > 0}
        for group in sorted(dear, key=lambda name: (-self.cost.saved(name), name)):
            if self._meets(chosen - {group}, "backward", share):
                chosen = chosen - {group}
        return chosen

    def _meets(self, fp16: Fp16, step: str, share: float) -> bool:
        return all(
            x.limit is None or x.high <= x.limit * share for x in self._try(fp16, step).measures
        )

    def _cost(self, fp16: Fp16) -> tuple[float, list[str]]:
        return self.cost.of(fp16), sorted(fp16)

    def _try(self, fp16: Fp16, step: str) -> CurvePoint:
        names = tuple(sorted(fp16))
        for point in self.curve:
            if point.fp16_groups == names:
                return point
        point = CurvePoint(
            fp16_groups=names,
            int8_mac_fraction=int8_share(self.record, fp16),
            cost=self.cost.of(fp16),
            measures=self.trial(fp16),
            step=step,
        )
        self.curve.append(point)
        return point


def growing(order: Sequence[str], start: Fp16) -> Iterator[Fp16]:
    """`start`, then one more of the order at a time."""
    chosen = start
    yield chosen
    for group in order:
        if group not in chosen:
            chosen = chosen | {group}
            yield chosen


def strides(count: int) -> list[int]:
    """Places of a list to look at first: all of the first few, then ever fewer, and the last."""
    places = [0]
    while places[-1] < count - 1:
        places.append(min(count - 1, places[-1] + 1 + places[-1] // 3))
    return places[:count]


def int8_share(record: ModelRecord, fp16: Fp16) -> float:
    """Share of the layers' MACs that is INT8 when these groups are in fp16, 0-1."""
    total = sum(layer.macs for layer in record.layers)
    int8 = sum(group.macs for group in record.groups if group.name not in fp16)
    return int8 / total if total else 0.0
