"""From scores to a verified plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.journal import Journal
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PlannedGroup, PrecisionPlan
from quantflow.artifacts.ranges_record import Island
from quantflow.artifacts.sweep_record import CurvePoint, GroupScore, PolicyResult
from quantflow.config import Config
from quantflow.numerics.output_metrics import OUTPUT_METRICS
from quantflow.progress import Progress
from quantflow.sensitivity.policy import Groups, plan_of, policy_none
from quantflow.sensitivity.probe import Probe
from quantflow.sensitivity.scores import one_in, rank
from quantflow.sensitivity.search import Search, comparable, growing
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
        scores: most harmful group first.
        curve: plans in the order they were tried.
        reasons: what stands in the way when the budget is not met.
    """

    plan: PrecisionPlan
    result: PolicyResult
    scores: tuple[GroupScore, ...]
    curve: tuple[CurvePoint, ...]
    reasons: tuple[str, ...]


def sweep(
    model: SegmentedModel,
    probe: Probe,
    verifier: Verifier,
    pinned: Mapping[str, PlannedGroup],
    islands: Sequence[Island],
    config: Config,
    journal: Journal,
    progress: Progress,
) -> Found:
    """Score every group, search, and verify; go on searching when verification fails.

    Args:
        model, probe: the bucket in segments, and the search samples.
        verifier: runs whole plans on other samples.
        pinned: groups whose precision is given.
        islands: nodes that stay in fp32.
        config: plan, budget and seed count.
        journal: where scores, tried and verified plans are noted, so that a kill loses none.
        progress: called as work goes on.
    """
    record, seed = verifier.record, config.run.seed
    scores = _scores(model, probe, record, config, journal, progress)
    ranking = [score.group for score in scores if score.group not in pinned]
    fixed = frozenset(name for name, group in pinned.items() if group.precision == "fp16")
    search = Search(record, _Trial(model, probe, record, journal, progress), seed)
    damage = {score.group: score for score in scores}

    def verified(fp16: frozenset[str]) -> tuple[PrecisionPlan, PolicyResult]:
        plan = plan_of("auto", _groups(record, pinned, fp16, damage), islands)
        key = _key("verified", fp16)
        if key not in journal:
            journal.note(key, verifier.run(plan).model_dump())
        return plan, PolicyResult.model_validate(journal.get(key))

    tried = list[tuple[PrecisionPlan, PolicyResult]]()
    for fp16 in _proposals(search, ranking, fixed, config.budget.cosine_mean, tried):
        progress("verifying the plan", len(tried), len(tried) + 1)
        tried.append(verified(fp16))
    progress("verifying the plan", len(tried), len(tried))
    plan, result = max(tried, key=lambda pair: comparable(pair[1].cosine_mean))
    search.extend(ranking, frozenset(plan.fp16_groups))
    reasons = () if result.meets_budget else (_obstacle(result, config.budget.cosine_mean),)
    return Found(plan, result, tuple(scores), tuple(search.curve), reasons)


def _proposals(
    search: Search,
    ranking: Sequence[str],
    fixed: frozenset[str],
    budget: float,
    tried: Sequence[tuple[PrecisionPlan, PolicyResult]],
) -> Iterator[frozenset[str]]:
    """Sets of fp16 groups to verify, until one meets the budget.

    When a set falls short on the verification samples, they are harder than the search samples by
    the ratio of its two damages (1 - cosine), and the search aims higher by that ratio. When that
    does not help, groups are added one by one to the first set, down to everything in fp16:
    accuracy need not grow with every group (C38).
    """
    aim, shown = budget, list[frozenset[str]]()
    for _ in range(MAX_ROUNDS):
        chosen = search.run(ranking, fixed, aim)
        if chosen in shown:
            break
        shown.append(chosen)
        yield chosen
        result = tried[-1][1]
        if result.meets_budget:
            return
        ratio = (1 - result.cosine_mean) / max(1 - search.mean(chosen), 1e-12)
        if not np.isfinite(ratio):
            break
        aim = 1 - (1 - budget) / ratio
    for larger in growing(ranking, shown[0]):
        if larger not in shown:
            yield larger
            if tried[-1][1].meets_budget:
                return


def _key(what: str, fp16: frozenset[str]) -> str:
    """Under which a plan is noted; names may hold blanks."""
    return "\n".join([what, *sorted(fp16)])


class _Trial:
    """Measures a set of fp16 groups on the search samples, or remembers having done so."""

    def __init__(
        self,
        model: SegmentedModel,
        probe: Probe,
        record: ModelRecord,
        journal: Journal,
        progress: Progress,
    ) -> None:
        self._model = model
        self._probe = probe
        self._groups = frozenset(group.name for group in record.groups)
        self._journal = journal
        self._progress = progress
        self._count = 0

    def __call__(self, fp16: frozenset[str]) -> NDArray[np.float64]:
        key = _key("fp16", fp16)
        self._progress("plans tried", self._count, self._count + 1)
        if key not in self._journal:
            int8 = self._groups - fp16
            results = (self._model.run(batch.feeds, int8) for batch in self._probe.batches)
            cosines = self._probe.measure(results, OUTPUT_METRICS["cosine"])
            self._journal.note(key, cosines.tolist())
        self._count += 1
        self._progress("plans tried", self._count, self._count)
        return np.array(self._journal.get(key), np.float64)


def _scores(
    model: SegmentedModel,
    probe: Probe,
    record: ModelRecord,
    config: Config,
    journal: Journal,
    progress: Progress,
) -> list[GroupScore]:
    metric = OUTPUT_METRICS[config.plan.metric]
    names = [group.name for group in record.groups]
    known = {
        name: np.array(journal.get(f"score {name}"), np.float64)
        for name in names
        if f"score {name}" in journal
    }
    values = one_in(
        model,
        probe,
        metric,
        known=known,
        on_score=lambda group, found: journal.note(f"score {group}", found.tolist()),
        progress=progress,
    )
    return rank(values, record, metric, probe.of_float(metric), seed=config.run.seed)


def _groups(
    record: ModelRecord,
    pinned: Mapping[str, PlannedGroup],
    fp16: frozenset[str],
    scores: Mapping[str, GroupScore],
) -> Groups:
    groups = policy_none(record, pinned)
    for place, (name, score) in enumerate(scores.items(), 1):
        if name in fp16 and name not in pinned:
            reason = f"sensitivity rank {place}: damage {score.damage:.3g} when INT8 alone"
            groups[name] = PlannedGroup(precision="fp16", reason=reason)
    return groups


def _obstacle(result: PolicyResult, budget: float) -> str:
    return (
        f"no plan meets the budget: the best has a mean cosine of {result.cosine_mean:.6f} with "
        f"{result.fp16_groups} groups in fp16, budget.cosine_mean is {budget}"
    )
