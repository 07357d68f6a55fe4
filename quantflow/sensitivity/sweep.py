"""From scores to a verified plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import Island
from quantflow.artifacts.record import Verdict
from quantflow.artifacts.sweep_record import (
    CurvePoint,
    GroupScore,
    Measure,
    PolicyResult,
    SideResult,
)
from quantflow.progress import Progress
from quantflow.sensitivity.assess import Assessed
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.measures import measures_of, shortfall
from quantflow.sensitivity.obstacles import obstacles
from quantflow.sensitivity.policy import plan_of, policy_none
from quantflow.sensitivity.probe import Probe
from quantflow.sensitivity.search import Fp16, Limits, Search, growing, strides
from quantflow.sensitivity.segmented_model import SegmentedModel
from quantflow.sensitivity.verification import Verifier

MAX_ROUNDS = 4
"""How often the search aims higher after a plan fell short on the verification samples."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a sweep came to.

    Attributes:
        plan: the plan.
        result: the plan on the verification samples.
        curve: plans in the order they were tried.
        sides: each side of quantization alone.
        reasons: what stands in the way when the budget is not met.
    """

    plan: PrecisionPlan
    result: PolicyResult
    curve: tuple[CurvePoint, ...]
    sides: tuple[SideResult, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Searches for a plan, and verifies; searches on when verification fails.

    Attributes:
        model, probe: the bucket in segments, and the search samples.
        verifier: runs whole plans on other samples.
        pinned: groups whose precision is given.
        islands: nodes that stay in fp32.
        coverage: whether held-out samples stay within the calibrated ranges.
        ledger: what is known.
        progress: called as work goes on.
    """

    model: SegmentedModel
    probe: Probe
    verifier: Verifier
    pinned: Mapping[str, PlannedGroup]
    islands: Sequence[Island]
    coverage: Verdict
    ledger: Ledger
    progress: Progress

    def run(self, assessed: Assessed) -> Found:
        """The cheapest plan that meets the budget, or the best there is."""
        sides = self._sides()
        search, start = self._search(self.verifier.limits), self._start(self.verifier.limits)
        orders = self._orders(assessed.scores, start)
        tried = list[tuple[PrecisionPlan, PolicyResult]]()
        for fp16 in self._proposals(search, orders, start, tried):
            self.progress("verifying the plan", len(tried), len(tried) + 1)
            plan = self._plan(fp16, assessed.scores)
            tried.append((plan, self.verifier.run(plan)))
        self.progress("verifying the plan", len(tried), len(tried))
        plan, result = min(tried, key=lambda pair: _badness(pair[1]))
        reasons = () if result.meets_budget else self._reasons(result, sides, assessed.scores)
        return Found(plan, result, tuple(search.curve), sides, reasons)

    def _sides(self) -> tuple[SideResult, ...]:
        """Everything in fp16, with either side alone quantized, and in INT8, whatever the pins."""
        record = self.verifier.record
        int8 = plan_of("none", policy_none(record, {}), self.islands)
        nothing = {group.name: PlannedGroup(precision="fp16") for group in record.groups}
        fp16 = plan_of("none", nothing, self.islands)
        runs: dict[str, Callable[[], tuple[Measure, ...]]] = {
            "fp16": lambda: self.verifier.run(fp16).measures,
            "weights": lambda: self.verifier.one_side(int8, "weights"),
            "activations": lambda: self.verifier.one_side(int8, "activations"),
            "int8": lambda: self.verifier.run(int8).measures,
        }
        found = list[SideResult]()
        for side, run in runs.items():
            self.progress("sides of quantization", len(found), len(runs))
            found.append(SideResult.model_validate({"side": side, "measures": run()}))
        self.progress("sides of quantization", len(found), len(runs))
        return tuple(found)

    def _search(self, limits: Limits) -> Search:
        numbers = count()

        def trial(fp16: Fp16) -> tuple[Measure, ...]:
            number = next(numbers)
            self.progress("plans tried", number, number + 1)
            measures = self._trial(fp16)
            self.progress("plans tried", number + 1, number + 1)
            return measures

        return Search(self.verifier.record, self.verifier.cost, limits, trial)

    def _start(self, limits: Limits) -> Fp16:
        """What is in fp16 whatever is measured: pins, and where asked, what INT8 makes dearer."""
        pinned = {name for name, x in self.pinned.items() if x.precision == "fp16"}
        if not self.verifier.config.plan.fp16_where_cheaper:
            return frozenset(pinned)
        free = {group.name for group in self.verifier.record.groups} - set(self.pinned)
        dear = {name for name in free if self.verifier.cost.saved(name) <= 0}
        start = frozenset(pinned | dear)
        return start if limits.allow(self.verifier.record, start) else frozenset(pinned)

    def _orders(self, scores: Sequence[GroupScore], start: Fp16) -> list[list[str]]:
        """Groups by damage for what INT8 saves, alone and among the others, and by damage."""
        free = [x for x in scores if x.group not in self.pinned and x.group not in start]

        def per_cost(damage: Callable[[GroupScore], float]) -> list[str]:
            saved = {x.group: max(self.verifier.cost.saved(x.group), 1.0) for x in free}
            ranked = sorted(free, key=lambda x: -_broken_first(damage(x)) / saved[x.group])
            return [x.group for x in ranked]

        return [
            per_cost(lambda x: x.one_in.damage),
            per_cost(lambda x: x.one_out.damage),
            [x.group for x in free],
        ]

    def _proposals(
        self,
        search: Search,
        orders: Sequence[Sequence[str]],
        start: Fp16,
        tried: Sequence[tuple[PrecisionPlan, PolicyResult]],
    ) -> Iterator[Fp16]:
        """Sets of fp16 groups to verify, until one meets the budget.

        When a set falls short on the verification samples, they are harder than the search samples
        by the ratio of the damages, and the search aims higher by that ratio. When that does not
        help, the first set grows, down to everything in fp16: accuracy need not grow with every
        group (C38).
        """
        share, shown = 1.0, list[Fp16]()
        for _ in range(MAX_ROUNDS):
            chosen = search.run(orders, start, share)
            if chosen in shown:
                break
            shown.append(chosen)
            yield chosen
            if tried[-1][1].meets_budget:
                return
            searched, verified = (
                shortfall(search.measures(chosen)),
                shortfall(tried[-1][1].measures),
            )
            if not np.isfinite(verified) or searched <= 0 or verified <= 1:
                break
            share = min(share, searched / verified)
        yield from self._larger(growing(orders[0], shown[0]), tried)

    def _larger(
        self, sets: Iterable[Fp16], tried: Sequence[tuple[PrecisionPlan, PolicyResult]]
    ) -> Iterator[Fp16]:
        """Some of ever larger sets until one meets the budget, then those that were passed over."""
        record, limits = self.verifier.record, self.verifier.limits
        allowed = [fp16 for fp16 in sets if limits.allow(record, fp16)]
        passed = 0
        for place in strides(len(allowed)):
            yield allowed[place]
            if tried[-1][1].meets_budget:
                break
            passed = place + 1
        else:
            return
        for fp16 in allowed[passed:place]:
            yield fp16
            if tried[-1][1].meets_budget:
                return

    def _trial(self, fp16: Fp16) -> tuple[Measure, ...]:
        """A set on the search samples: what the budget asks of it."""
        asked = {k: x for k, x in self.verifier.criteria.items() if x.limit is not None}

        def measured() -> dict[str, Any]:
            int8, probe = self.model.groups - fp16, self.probe
            found = probe.measure(lambda number: self.model.run(probe.feeds(number), int8), asked)
            return {name: values.tolist() for name, values in found.items()}

        noted = self.ledger.recall("\n".join(["fp16", *sorted(fp16)]), measured)
        values = {name: np.array(found, np.float64) for name, found in noted.items()}
        seed = self.verifier.config.run.seed
        return measures_of(asked, values, self.probe, seed=seed)

    def _plan(self, fp16: Fp16, scores: Sequence[GroupScore]) -> PrecisionPlan:
        groups = policy_none(self.verifier.record, self.pinned)
        for place, score in enumerate(scores, 1):
            if score.group in fp16 and score.group not in self.pinned:
                groups[score.group] = self._reason(place, score)
        return plan_of("auto", groups, self.islands)

    def _reason(self, place: int, score: GroupScore) -> PlannedGroup:
        asked = self.verifier.config.plan.fp16_where_cheaper
        if asked and self.verifier.cost.saved(score.group) <= 0:
            reason = "cost: its boundaries are estimated to cost more than INT8 saves"
        else:
            damage = f"damage {score.one_in.damage:.3g} when INT8 alone"
            reason = f"sensitivity rank {place}: {damage}"
        return PlannedGroup(precision="fp16", reason=reason)

    def _reasons(
        self, best: PolicyResult, sides: Sequence[SideResult], scores: Sequence[GroupScore]
    ) -> tuple[str, ...]:
        limits, criteria = self.verifier.limits, self.verifier.criteria
        beyond: CurvePoint | None = None
        if limits != Limits() or self.pinned:
            free = replace(self, pinned={})
            search = free._search(Limits())
            chosen = search.run(free._orders(scores, frozenset()), frozenset())
            point = next(x for x in search.curve if x.fp16_groups == tuple(sorted(chosen)))
            content = all(x.meets for x in point.measures)
            beyond = point if content and not self._allowed(chosen) else None
        pinned = bool(self.pinned)
        return obstacles(best, sides, criteria, limits, beyond, self.coverage, pinned=pinned)

    def _allowed(self, fp16: Fp16) -> bool:
        """Whether limits and pins allow a plan."""
        kept = {
            name for name, x in self.pinned.items() if (x.precision == "fp16") == (name in fp16)
        }
        return self.verifier.limits.allow(self.verifier.record, fp16) and kept == set(self.pinned)


def _broken_first(damage: float) -> float:
    """A damage that orders: NaN, a broken output, is worse than any number."""
    return float("inf") if np.isnan(damage) else damage


def _badness(result: PolicyResult) -> tuple[bool, float, float]:
    """Sort key of verified plans: what meets the budget, then how near, then how cheap."""
    return not result.meets_budget, max(shortfall(result.measures), 1.0), result.cost
