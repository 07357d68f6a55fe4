"""The work of the comparison: fp32, fp16 and int8 on samples that nothing was calibrated with.

int8 is the deploy file itself, read back from disk and lowered to standard integer operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from quantflow.artifacts.comparison import Comparison, LayerError, Precision
from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.record import Verdict, worst
from quantflow.artifacts.sample_set import SampleSet
from quantflow.artifacts.sweep_record import Measure
from quantflow.config import TaskConfig
from quantflow.evaluation.comparison import (
    REFERENCE,
    Closeness,
    Observer,
    compare_outputs,
)
from quantflow.evaluation.drop_verdict import judge_drop
from quantflow.evaluation.layer_error import SAMPLES, layer_errors
from quantflow.evaluation.precisions import Precisions, open_precisions
from quantflow.evaluation.verdict import judge, judge_twins
from quantflow.graph.model_io import load_model
from quantflow.stages.comparing_task import TASK_PRECISIONS, task_result
from quantflow.stages.stage import Context
from quantflow.tasks import agreement, classification, perplexity, retrieval, similarity
from quantflow.tasks.criteria import Criterion, criteria, task_limit
from quantflow.tasks.fidelity import fidelity
from quantflow.tasks.figures import Figures, measure
from quantflow.tasks.metrics import Judged

_LABELS = {
    "similarity": similarity.METRIC,
    "classification": classification.METRIC,
    "retrieval": retrieval.METRIC,
    "perplexity": perplexity.METRIC,
    "agreement": agreement.METRIC,
}


def work(context: Context, folder: Path) -> None:
    """Write `comparison.json`."""
    config, seed = context.config, context.config.run.seed
    record = ModelRecord.read(context.quantized_model / "model.json")
    export_dir = context.folder("40_onnx")
    export = ExportRecord.read(export_dir / "export.json")
    plan = PrecisionPlan.read(export_dir / "plan.json")
    bucket = export.buckets[0]
    models = open_precisions(export_dir, bucket, plan, config.target, config.runtime)
    asked, label = criteria(config, context.loaded.base), task_label(config.task)
    samples = SampleSet(context.folder("10_set") / "evaluation")
    figures = _figures(asked, models, len(samples))
    found = compare_outputs(
        models.fp32,
        models.others,
        samples,
        samples.ids,
        record,
        bucket.dims,
        context.progress,
        _noting(figures),
    )
    close = {
        name: fidelity(x.cosine, x.max_abs_error, samples.ids, seed=seed)
        for name, x in found.items()
    }
    measures = {name: _measures(x, found, figures, seed) for name, x in asked.items()}
    judged: list[tuple[Verdict, list[str]]] = [judge_twins(close)]
    judged += [judge(criterion, measures[name], label) for name, criterion in asked.items()]
    result = task_result(context, record, bucket, models, figures)
    if (limit := task_limit(config)) is not None:
        measures[limit.kind] = result.measures(limit)
        judged.append(judge_drop(limit, result.scores, result.against_fp32, label))
    verdicts: list[Verdict] = [verdict for verdict, _ in judged]
    Comparison(
        bucket=bucket.name,
        samples=len(samples),
        fidelity={name: close[name] for name in close if name != "qdq_unfused"},
        fidelity_gap=abs(close["int8"].cosine_mean - close["qdq"].cosine_mean),
        flip_noise=abs(close["qdq"].cosine_mean - close["qdq_unfused"].cosine_mean),
        measures=measures,
        task=result.scores,
        task_metric=label,
        task_details=result.details,
        paired=result.paired,
        layers=_layers(context, record, export, plan),
        layer_samples=tuple(samples.ids[:SAMPLES]),
        verdict=worst(*verdicts),
        reasons=tuple(reason for _, reasons in judged for reason in reasons),
    ).write(folder / "comparison.json")


def task_label(task: TaskConfig | None) -> str:
    """What the task's figure is called: a user's like its function; empty without a task."""
    if task is None:
        return ""
    return _LABELS.get(task.kind) or str(task.function).partition(":")[2]


def _figures(
    asked: Mapping[str, Criterion], models: Precisions, samples: int
) -> dict[Precision, Figures]:
    """Where every precision's figures of the task are gathered; empty if it has none a sample."""
    metrics = [criterion.metric for name, criterion in asked.items() if name != "cosine"]
    there = {REFERENCE, *models.others}
    found = dict[Precision, Figures]()
    for name in TASK_PRECISIONS:
        for metric in metrics if name in there else ():
            found[name] = Figures(metric, samples)
    return found


def _noting(figures: Mapping[Precision, Figures]) -> Observer:
    by_name = {str(name): seen for name, seen in figures.items()}

    def observe(name: str, index: int, judged: Judged) -> None:
        if name in by_name:
            by_name[name].add(index, judged)

    return observe


def _measures(
    criterion: Criterion,
    found: Mapping[str, Closeness],
    figures: Mapping[Precision, Figures],
    seed: int,
) -> dict[Precision, Measure]:
    """Every precision by one criterion."""
    measures = dict[Precision, Measure]()
    for name in TASK_PRECISIONS:
        if criterion.name != "cosine" and name in figures:
            x, of_float = figures[name], figures[REFERENCE].values
            measures[name] = measure(criterion, x.values, of_float, x.weights, seed=seed)
        elif criterion.name == "cosine" and name in found:
            cosines = found[name].cosine
            measures[name] = measure(criterion, cosines, np.ones(len(cosines)), seed=seed)
    return measures


def _layers(
    context: Context, record: ModelRecord, export: ExportRecord, plan: PrecisionPlan
) -> tuple[LayerError, ...]:
    export_dir, bucket = context.folder("40_onnx"), export.buckets[0]
    return layer_errors(
        load_model(export_dir / bucket.float_twin),
        load_model(export_dir / bucket.deploy),
        record,
        export,
        plan.island_nodes,
        SampleSet(context.folder("10_set") / "evaluation"),
        bucket.dims,
        context.config.target,
        context.config.runtime,
        context.progress,
    )
