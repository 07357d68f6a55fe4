"""A model of which the test says how much every set of INT8 groups hurts every sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quantflow.artifacts.journal import Journal
from quantflow.artifacts.model_record import ModelRecord, TensorInfo
from quantflow.config import Role
from quantflow.graph.segments import Segment
from quantflow.progress import Progress, no_progress
from quantflow.runtime.workers import ALONE, Workers
from quantflow.sensitivity.assess import Assessment
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.probe import Probe
from quantflow.tasks.metrics import Judged, Metric

from .builders import record_of

SIDES = (None, "weights", "activations")

Harm = Callable[[frozenset[str], str | None, int], float]
"""Damage of a set of INT8 groups, of which only one side may be quantized, to a sample."""


class FakeModel:
    """One group a segment. Its output says which groups were INT8, which side, and no more."""

    def __init__(self, record: ModelRecord) -> None:
        self.names = [group.name for group in record.groups]
        self.segments = [Segment(("x",), ("x",), (name,)) for name in self.names]
        self.asked: list[tuple[frozenset[str], str | None]] = []

    @property
    def groups(self) -> frozenset[str]:
        return frozenset(self.names)

    def step(self, values: Any, index: int, int8: frozenset[str], side: str | None = None) -> Any:
        return values

    def run(
        self, values: Any, int8: frozenset[str], *, start: int = 0, side: str | None = None
    ) -> dict[str, np.ndarray]:
        self.asked.append((int8, side))
        row = [float(name in int8) for name in self.names] + [float(SIDES.index(side))]
        return {"y": np.tile(np.float32(row), (len(values["x"]), 1))}


def fake_record(macs: Mapping[str, int], roles: Mapping[str, Role] | None = None) -> ModelRecord:
    """Groups of one layer each, and the boundary of `FakeModel`."""
    return record_of(macs, roles).model_copy(
        update={
            "inputs": (TensorInfo(name="x", dtype="float32", shape=("batch", 1)),),
            "outputs": (TensorInfo(name="y", dtype="float32", shape=("batch", len(macs) + 1)),),
        }
    )


def harm_metric(names: Sequence[str], harm: Harm, sign: int, of_float: float | None) -> Metric:
    """A metric whose damage is given. The float model has `of_float`, or each sample its number."""

    def value(judged: Judged) -> float:
        *flags, side = judged.outputs["y"].tolist()
        int8 = frozenset(name for name, flag in zip(names, flags, strict=True) if flag)
        sample = int(judged.id.removeprefix("s"))
        start = of_float if of_float is not None else float(sample)
        return start + sign * (harm(int8, SIDES[int(side)], sample) if int8 else 0.0)

    return Metric(value, sign < 0, of_float)


def fake_probe(
    model: FakeModel,
    record: ModelRecord,
    metrics: Mapping[str, Metric],
    samples: int,
    batch: int = 1,
    workers: Workers = ALONE,
) -> Probe:
    """Samples called ``s0``, ``s1`` and so on."""
    return Probe(
        lambda feeds: model.run(feeds, frozenset()),
        [{"x": np.float32([index])} for index in range(samples)],
        [f"s{index}" for index in range(samples)],
        record,
        {"batch": batch},
        metrics,
        workers,
    )


def fake_assessment(
    harm: Harm,
    roles: Mapping[str, Role],
    samples: int,
    *,
    batch: int = 1,
    sign: int = 1,
    of_float: float | None = 0.0,
    halving: bool = True,
    journal: Journal | None = None,
    workers: Workers = ALONE,
    progress: Progress = no_progress,
) -> Assessment:
    """The scoring of groups whose harm is given."""
    record = fake_record(dict.fromkeys(roles, 10), roles)
    model = FakeModel(record)
    metrics = {"m": harm_metric(list(roles), harm, sign, of_float)}
    probe = fake_probe(model, record, metrics, samples, batch, workers)
    return Assessment(
        model=model,  # pyright: ignore[reportArgumentType]
        probe=probe,
        record=record,
        metric="m",
        halving=halving,
        seed=0,
        ledger=Ledger(journal, workers),
        progress=progress,
    )
