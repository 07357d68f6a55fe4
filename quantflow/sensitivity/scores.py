"""Scores of groups: what happens when one alone is INT8, and when all but it are.

Every value is of one sample, so that groups can be compared on the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Literal

import numpy as np

from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.probe import Probe, Run
from quantflow.sensitivity.segmented_model import SegmentedModel
from quantflow.sensitivity.walk import States, walk
from quantflow.tasks.metrics import Values

Way = Literal["in", "out", "weights", "activations"]
"""The group alone in INT8, all but the group, or one side of the group alone."""


def score_groups(
    model: SegmentedModel,
    probe: Probe,
    metric: str,
    way: Way,
    groups: Collection[str],
    part: range,
    ledger: Ledger,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Values]:
    """The metric of every sample for every group.

    The state of the model before a segment is kept for every batch, float or all INT8, so that a
    group costs its own segment and what follows it.

    Args:
        model: the bucket in segments.
        probe: the samples.
        metric: what is measured.
        way: what is INT8.
        groups: which groups.
        part: numbers of the batches.
        ledger: what was scored before, as after a kill, is not measured again.
        progress: told how many of the groups are done, and how many they are.

    Returns:
        ``(S',)`` float64 by group, for the samples of the part.
    """

    def key(group: str) -> str:
        return "\n".join([f"score {way} {part.start}-{part.stop}", group])

    prefix = model.groups if way == "out" else frozenset[str]()
    unknown = [group for group in groups if key(group) not in ledger]
    done = len(groups) - len(unknown)
    for group, index, states in walk(model, probe, part, unknown, prefix):
        progress(done, len(groups))
        run = _run(model, states, index, way, group)
        ledger.recall(key(group), partial(_measured, probe, run, metric, part))
        done += 1
    progress(done, len(groups))
    return {group: np.array(ledger.entry(key(group)), np.float64) for group in groups}


def _run(model: SegmentedModel, states: States, index: int, way: Way, group: str) -> Run:
    int8 = model.groups - {group} if way == "out" else frozenset({group})
    side = way if way == "weights" or way == "activations" else None
    return lambda number: model.run(states.get(number), int8, start=index, side=side)


def _measured(probe: Probe, run: Run, metric: str, part: range) -> list[float]:
    return probe.measure(run, [metric], part)[metric].tolist()
