"""One-in scores: the damage that each group does when it alone is INT8.

The state of the float model before a segment is kept for every batch, so the prefix of a late group
is never recomputed: a group costs its own segment and what follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sweep_record import GroupScore
from quantflow.numerics.bootstrap import mean_interval
from quantflow.numerics.output_metrics import OutputMetric
from quantflow.progress import Progress, no_progress
from quantflow.sensitivity.probe import Probe
from quantflow.sensitivity.segmented_model import SegmentedModel, Values

Scored = Callable[[str, NDArray[np.float64]], None]
"""Called with a group's name and its ``(S,)`` metric values, as soon as they are known."""


def one_in(
    model: SegmentedModel,
    probe: Probe,
    metric: OutputMetric,
    *,
    known: Mapping[str, NDArray[np.float64]],
    on_score: Scored,
    progress: Progress = no_progress,
) -> dict[str, NDArray[np.float64]]:
    """The metric of every sample for every group.

    Args:
        model: the bucket in segments.
        probe: search samples with their float32 outputs.
        metric: what is measured.
        known: values of groups that were scored before, as after a kill; not measured again.
        on_score: told each new score.
        progress: called after every group.

    Returns:
        ``(S,)`` float64 by group, in graph order.
    """
    scores = dict[str, NDArray[np.float64]]()
    states: list[Values] = [dict(batch.feeds) for batch in probe.batches]
    total = sum(len(segment.groups) for segment in model.segments)
    for index, segment in enumerate(model.segments):
        for group in segment.groups:
            if group in known:
                scores[group] = known[group]
            else:
                only = frozenset({group})
                results = (model.run(state, only, start=index) for state in states)
                scores[group] = probe.measure(results, metric)
                on_score(group, scores[group])
            progress("sensitivity of every group", len(scores), total)
        if index + 1 < len(model.segments):
            states = [model.step(state, index, frozenset()) for state in states]
    return scores


def rank(
    scores: Mapping[str, NDArray[np.float64]],
    record: ModelRecord,
    metric: OutputMetric,
    of_float: NDArray[np.float64],
    *,
    seed: int,
) -> list[GroupScore]:
    """Order groups from most to least harmful, with intervals.

    Among groups whose intervals overlap, QKV groups and output projections come first: they are the
    first candidates for fp16 where the measurement does not decide.

    Args:
        scores: ``(S,)`` metric values by group.
        record: its groups.
        metric: what was measured.
        of_float: ``(S,)`` values of the float model.
        seed: of the bootstrap.
    """
    total = sum(layer.macs for layer in record.layers) or 1
    found = list[GroupScore]()
    for group in record.groups:
        values = scores[group.name]
        damage = metric.damage(values, of_float)
        low, high = mean_interval(damage, seed=seed)
        found.append(
            GroupScore(
                group=group.name,
                role=group.role,
                mac_fraction=group.macs / total,
                value=metric.over_samples(values),
                damage=float(damage.mean()),
                low=low,
                high=high,
                tied=False,
            )
        )
    return _mark_ties(_attention_first(sorted(found, key=lambda s: _order(s.damage))))


def _order(damage: float) -> float:
    """Sort key: most damage first, NaN (a broken output) before all."""
    return float("-inf") if np.isnan(damage) else -damage


def _attention_first(ranked: Sequence[GroupScore]) -> list[GroupScore]:
    """Move attention groups ahead of groups that they are tied with, keeping order otherwise."""
    result = list[GroupScore]()
    for score in ranked:
        place = len(result)
        while place and _attention(score) and _yields(result[place - 1], score):
            place -= 1
        result.insert(place, score)
    return result


def _attention(score: GroupScore) -> bool:
    return score.role in ("qkv", "attention_output")


def _yields(before: GroupScore, score: GroupScore) -> bool:
    return _overlap(before, score) and not _attention(before)


def _overlap(a: GroupScore, b: GroupScore) -> bool:
    return a.low <= b.high and b.low <= a.high


def _mark_ties(ranked: Sequence[GroupScore]) -> list[GroupScore]:
    following = [*ranked[1:], None]
    return [
        score.model_copy(update={"tied": other is not None and _overlap(score, other)})
        for score, other in zip(ranked, following, strict=True)
    ]
