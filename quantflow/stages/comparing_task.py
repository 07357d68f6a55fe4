"""The task in the comparison: all precisions side by side, and pair by pair."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from quantflow.artifacts.comparison import Precision
from quantflow.artifacts.export_record import BucketFiles
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.calibration.build import task_set_name
from quantflow.config import TaskConfig
from quantflow.evaluation.comparison import REFERENCE
from quantflow.evaluation.own_records import judge_records
from quantflow.evaluation.precisions import Precisions
from quantflow.evaluation.task_result import TaskResult, result_of_figures, result_of_records
from quantflow.stages.stage import Context
from quantflow.tasks.criteria import asked_drop
from quantflow.tasks.figures import Figures
from quantflow.tasks.judgement import Judgement
from quantflow.tasks.paired_score import Pairing
from quantflow.tasks.truth import load_truth

TASK_PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "fp16_plain", "int8")
"""What a task judges, as far as it is there."""


def task_result(
    context: Context,
    record: ModelRecord,
    bucket: BucketFiles,
    models: Precisions,
    figures: Mapping[Precision, Figures],
) -> TaskResult:
    """All precisions in the task; nothing without one.

    Args:
        context: of the comparison.
        record, bucket: what is run.
        models: every precision of the bucket.
        figures: of a task on the evaluation samples, which have been run already.
    """
    config = context.config
    if config.task is None:
        return TaskResult()
    better = all(seen.metric.higher_is_better for seen in figures.values())
    pairing = Pairing(config.task.kind, better, asked_drop(config), config.run.seed)
    if not config.task.sources:
        return result_of_figures(pairing, figures)
    return result_of_records(pairing, _judged(context, config.task, record, bucket, models))


def task_records(context: Context, task: TaskConfig) -> tuple[dict[str, SampleSet], NDArray[Any]]:
    """The records of a task that has its own, by set, and what they are judged by.

    Raises:
        QuantflowError: as `load_truth`.
    """
    folder = context.folder("10_set")
    names = map(task_set_name, context.config.task_sources)
    sets = {name: SampleSet(folder / name) for name in names}
    sizes = {name: len(samples) for name, samples in sets.items()}
    return sets, load_truth(task, context.loaded.base, sizes)


def _judged(
    context: Context,
    task: TaskConfig,
    record: ModelRecord,
    bucket: BucketFiles,
    models: Precisions,
) -> dict[Precision, Judgement]:
    """What every precision comes to on the task's own records, one model after the other."""
    sets, truth = task_records(context, task)
    runners = {REFERENCE: models.fp32, **models.others}
    there: list[Precision] = [name for name in TASK_PRECISIONS if name in runners]
    ticks, total = itertools.count(1), sum(map(len, sets.values())) * len(there)

    def tick() -> None:
        context.progress("the task in fp32, fp16 and int8", next(ticks), total)

    found = dict[Precision, Judgement]()
    for name in there:
        runner = runners[name]
        found[name] = judge_records(task, truth, sets, runner, record, bucket.dims, tick)
        runner.close()
    return found
