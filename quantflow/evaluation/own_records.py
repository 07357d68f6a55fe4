"""A task with records of its own: one model run on all of them, and what it comes to.

Of a record of a classification one number is kept, of the other kinds its embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.config import TaskConfig
from quantflow.runtime.bucket_run import Outputs, as_vector, run_samples
from quantflow.runtime.runner import Runner
from quantflow.tasks.classification import TOP, class_count, label_rank
from quantflow.tasks.judgement import Judgement
from quantflow.tasks.retrieval import RECALLS, embedding_of, ranks, recall, reciprocal_ranks
from quantflow.tasks.similarity import similarity_statistic

Run = Callable[[str], Iterator[tuple[int, Outputs]]]
"""Given the name of a set, the position and the outputs of each of its samples."""


def judge_records(
    task: TaskConfig,
    truth: NDArray[Any],
    sets: Mapping[str, SampleSet],
    runner: Runner,
    record: ModelRecord,
    dims: Mapping[str, int],
    tick: Callable[[], None] = lambda: None,
) -> Judgement:
    """What a model comes to in a task that has records of its own.

    Args:
        task: which.
        truth: what `load_truth` gives for it.
        sets: the records, by the name of their set.
        runner: the model.
        record, dims: boundary and sizes of its bucket.
        tick: called after every sample.

    Raises:
        QuantflowError: QF311, QF316 or QF317 when the outputs do not fit the task.
    """

    def run(name: str) -> Iterator[tuple[int, Outputs]]:
        for index, (outputs,) in run_samples([runner], sets[name], record, dims):
            yield index, outputs
            tick()

    if task.kind == "classification":
        return _classified(run, truth)
    if task.kind == "retrieval":
        return _retrieved(run, truth)
    embeddings = _rows(run("task"), as_vector)
    return Judgement(len(embeddings), similarity_statistic(embeddings, truth))


def _classified(run: Run, labels: NDArray[np.int64]) -> Judgement:
    places, classes = np.full(len(labels), np.nan), 0
    for index, outputs in run("task"):
        places[index] = label_rank(outputs, int(labels[index]))
        classes = class_count(outputs)
    details = {f"top{TOP}_accuracy": (places < TOP).astype(np.float64)} if classes > TOP else {}
    return Judgement.of_values((places < 1).astype(np.float64), details=details)


def _retrieved(run: Run, relevant: NDArray[np.int64]) -> Judgement:
    queries, documents = (_rows(run(name), embedding_of) for name in ("queries", "documents"))
    places = ranks(queries, documents, relevant)
    details = {f"recall@{place}": recall(places, place) for place in RECALLS}
    return Judgement.of_values(reciprocal_ranks(places), details=details)


def _rows(
    found: Iterator[tuple[int, Outputs]], vector: Callable[[Outputs], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Every sample's vector in its place, ``(S, D)``."""
    rows = {index: vector(outputs) for index, outputs in found}
    return np.stack([rows[index] for index in range(len(rows))])
