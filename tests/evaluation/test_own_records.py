"""A model on a task's own records: every record counts in its place, whatever batch it ran in."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from quantflow.artifacts.sample_set import SampleSet
from quantflow.config import TaskConfig
from quantflow.errors import QuantflowError
from quantflow.evaluation.own_records import judge_records
from tests.runtime.sequence_model import DIMS, Sample, record, sample

SOURCE = {"kind": "text", "path": "a.txt"}
ABOUT = record(pooled=("batch", 2))


class Angles:
    """Gives the direction of an angle of a tenth of the sum of the ids."""

    outputs = ("pooled",)

    def run(self, feeds: Any) -> dict[str, Any]:
        angle = np.where(feeds["m"], feeds["ids"], 0).sum(1) / 10
        return {"pooled": np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)}


def task(kind: str, **keys: Any) -> TaskConfig:
    return TaskConfig.model_validate({"kind": kind, **keys})


def judged(about: TaskConfig, truth: Any, runner: Any = None, **sets: list[Sample]) -> Any:
    ticks = list[int]()
    given = cast("dict[str, SampleSet]", sets)  # only iterated over
    found = judge_records(
        about, truth, given, runner or Angles(), ABOUT, DIMS, lambda: ticks.append(1)
    )
    assert len(ticks) == sum(map(len, sets.values()))
    return found


# Lengths that alternate leave a batch out of order.
SUMS = [3, 14, 1, 9, 20, 6, 30]
SAMPLES = [
    sample([total - 1, 1][: 1 + i % 2] if i % 2 else [total]) for i, total in enumerate(SUMS)
]


def test_a_label_is_right_where_its_score_is_highest() -> None:
    labels = np.array([0, 0, 1, 1, 0, 1, 1])
    # cos x >= sin x up to pi/4 = 0.785: class 0; then class 1 up to 5/4 pi = 3.93.
    expected = [
        int((total / 10 < np.pi / 4) == (label == 0))
        for total, label in zip(SUMS, labels, strict=True)
    ]
    about = task("classification", source=SOURCE, labels="l.txt")
    found = judged(about, labels, task=SAMPLES)
    assert found.values.tolist() == expected and found.details == {}
    assert found.score(seed=0).value == pytest.approx(np.mean(expected))


def test_a_query_finds_the_document_at_its_angle() -> None:
    queries = [sample([total]) for total in (4, 13, 5)]
    about = task("retrieval", queries=SOURCE, documents=SOURCE)
    # Of (3, 14, 1, 9, 20, 6, 30), 4 is nearest to 3, then 6, then 1; 5 to 6, then 3.
    found = judged(about, np.array([2, 1, 0]), queries=queries, documents=SAMPLES)
    assert found.values.tolist() == pytest.approx([1 / 3, 1, 1 / 2])
    assert found.details["recall@1"].tolist() == [0, 1, 0]
    assert found.details["recall@10"].tolist() == [1, 1, 1]


def test_pairs_of_documents_are_scored_by_the_cosine_of_their_angles() -> None:
    angles = np.array(SUMS) / 10
    about = task("similarity", source=SOURCE, scores="s.npy")
    closeness = np.cos(angles[:, None] - angles[None])
    found = judged(about, closeness, task=SAMPLES)
    assert found.score(seed=0).value == pytest.approx(1, abs=0.01)  # rounding parts equals
    assert found.values is None and found.count == 7


class Classes:
    """Seven scores, the highest at the first id, the next at the class before it, and so on."""

    outputs = ("pooled",)

    def run(self, feeds: Any) -> dict[str, Any]:
        behind = (feeds["ids"][:, :1] - np.arange(7)) % 7
        return {"pooled": -behind.astype(np.float32)}


def test_the_five_highest_are_told_where_there_are_more_classes() -> None:
    about = task("classification", source=SOURCE, labels="l.txt")
    samples = [sample([n]) for n in (6, 6, 6, 6)]
    found = judged(about, np.array([6, 5, 2, 1]), Classes(), task=samples)
    assert found.values.tolist() == [1, 0, 0, 0]
    assert found.details["top5_accuracy"].tolist() == [1, 1, 1, 0]
    with pytest.raises(QuantflowError, match="label 7 is none of the model's 7 classes"):
        judged(about, np.array([7, 0, 0, 0]), Classes(), task=samples)
