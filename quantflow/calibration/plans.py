"""Which sets are drawn, in which order, from where, and whether there is enough for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from quantflow.calibration.draw import Pool
from quantflow.config import SetConfig, SourceConfig
from quantflow.errors import Problem, QuantflowError

STREAMS = {"candidates": 0, "deployment": 1, "evaluation": 2}
"""Random stream of every source, so that one's length does not move another's draw."""


@dataclass(frozen=True, slots=True)
class SetPlan:
    """A set to draw.

    Attributes:
        name: of the set.
        source: of its records, as the configuration names it.
        count: number of samples to draw, if the source has them.
        least: number of samples that there must be.
        key: of the configuration that says so.
    """

    name: str
    source: str
    count: int
    least: int
    key: str


def sources_of(sets: SetConfig) -> dict[str, SourceConfig]:
    """The sources that are configured, by name."""
    named = {name: getattr(sets, name) for name in STREAMS}
    return {name: source for name, source in named.items() if source is not None}


def plans_of(sets: SetConfig, limit: int | None) -> list[SetPlan]:
    """The sets in the order they are drawn; `calibration` with all candidates to choose from.

    Args:
        sets: the configuration.
        limit: most samples of a set, or None.
    """
    deployment = "deployment" if sets.deployment else "candidates"
    evaluation = "evaluation" if sets.evaluation else deployment
    pool = sets.pool_samples if sets.selection == "match" else 0
    wanted = [
        ("evaluation", evaluation, sets.evaluation_samples, "set.evaluation_samples"),
        ("heldout", deployment, sets.heldout_samples, "set.heldout_samples"),
        ("calibration", "candidates", sets.samples, "set.samples"),
    ]
    plans = [SetPlan(name, source, count, count, key) for name, source, count, key in wanted]
    plans[-1] = replace(plans[-1], count=max(sets.samples, pool))
    if sets.deployment:
        count = sets.deployment_samples
        plans.append(SetPlan("deployment", "deployment", count, 0, "set.deployment_samples"))
    most = limit or max(plan.count for plan in plans)
    return [replace(x, count=min(x.count, most), least=min(x.least, most)) for x in plans]


def stand_in(plan: SetPlan) -> tuple[str, ...]:
    """Says so where a set comes from another source than the one meant for it."""
    meant = {"evaluation": "evaluation", "heldout": "deployment"}
    source = meant.get(plan.name, plan.source)
    if plan.source == source:
        return ()
    return (f"There is no set.{source}: these are other samples of set.{plan.source}.",)


def check_counts(pools: Mapping[str, Pool], plans: Sequence[SetPlan]) -> None:
    """Refuse what cannot work before anything is preprocessed, all sources at once.

    Raises:
        QuantflowError: QF308 for every source that has too few records.
    """
    problems: list[Problem] = []
    for name, pool in pools.items():
        asked = [plan for plan in plans if plan.source == name and plan.least]
        total = sum(plan.least for plan in asked)
        if total > len(pool.records):
            parts = " + ".join(f"{plan.least} ({plan.key})" for plan in asked)
            what = f"{name} has {len(pool.records)} records, {total} are needed: {parts}"
            fix = "add records, or lower " + " or ".join(plan.key for plan in asked)
            problems.append(Problem("QF308", what, where=f"set.{name}", fix=fix))
    if problems:
        raise QuantflowError(problems)
