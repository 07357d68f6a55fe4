"""The order in which groups are put in fp16 to see which of them have the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from quantflow.artifacts.diagnosis_record import GroupDamage
from quantflow.artifacts.sweep_record import SweepRecord
from quantflow.evaluation.trials import Setup, Trials
from quantflow.progress import Progress
from quantflow.sensitivity.assess import portions
from quantflow.sensitivity.scores import score_groups
from quantflow.sensitivity.segmented_model import SegmentedModel


def swept_damages(sweep: SweepRecord | None) -> dict[str, float]:
    """What a sweep has found of every group alone in INT8."""
    return {x.group: x.one_in.damage for x in sweep.scores} if sweep is not None else {}


def measured_damages(
    trials: Trials, setup: Setup, groups: Sequence[str], metric: str, progress: Progress
) -> dict[str, float]:
    """The same of some groups, on a quarter of the samples."""
    model = SegmentedModel(
        trials.model,
        trials.record,
        trials.factors(setup),
        fp19=trials.fp19,
        runtime=trials.runtime,
        weights=setup.weights,
    )
    probe, part = trials.probe, portions(trials.probe, halving=True)[0]
    told = f"each of {len(groups)} groups alone in INT8"
    found = score_groups(
        model, probe, metric, "in", groups, part, trials.ledger,
        lambda done, total: progress(told, done, total),
    )  # fmt: skip
    seen = probe.samples_in(part)
    span = slice(seen.start, seen.stop)
    of_float, weights = probe.of_float[metric][span], probe.weights[metric][span]
    damages = dict[str, float]()
    for group, values in found.items():
        damage = probe.metrics[metric].damage(values, of_float)[weights > 0]
        damages[group] = float(damage.mean()) if len(damage) else 0.0
    return damages


def worst_first(damages: Mapping[str, float], groups: Sequence[str]) -> tuple[GroupDamage, ...]:
    """Some groups, a broken output first, then by damage, equal ones in the order given."""

    def badness(group: str) -> float:
        damage = damages.get(group, 0.0)
        return damage if np.isfinite(damage) else np.inf

    ordered = sorted(groups, key=lambda group: -badness(group))
    return tuple(GroupDamage(group=x, damage=damages.get(x, 0.0)) for x in ordered)
