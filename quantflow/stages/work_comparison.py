"""The work of the comparison: fp32, fp16 and int8 on samples that nothing was calibrated with.

int8 is the deploy file itself, read back from disk and lowered to standard integer operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from quantflow.artifacts.comparison import Comparison, Fidelity, LayerError, Precision, TaskScore
from quantflow.artifacts.export_record import BucketFiles, ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.record import worst
from quantflow.artifacts.sample_set import SampleSet
from quantflow.evaluation.comparison import (
    REFERENCE,
    Closeness,
    Observer,
    collect_outputs,
    compare_outputs,
)
from quantflow.evaluation.layer_error import layer_errors
from quantflow.evaluation.precisions import Precisions, open_precisions
from quantflow.evaluation.verdict import judge, judge_agreement, judge_perplexity
from quantflow.graph.model_io import load_model
from quantflow.stages.stage import Context
from quantflow.tasks import agreement, perplexity, similarity
from quantflow.tasks.agreement import Decisions
from quantflow.tasks.fidelity import fidelity
from quantflow.tasks.perplexity import TextLosses
from quantflow.tasks.scores import load_scores

TASK_PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "fp16_plain", "int8")
"""What a task judges, as far as it is there."""

_METRICS = {
    "similarity": similarity.METRIC,
    "perplexity": perplexity.METRIC,
    "agreement": agreement.METRIC,
}


def work(context: Context, folder: Path) -> None:
    """Write `comparison.json`."""
    config = context.config
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    export_dir = context.folder("40_onnx")
    export = ExportRecord.read(export_dir / "export.json")
    plan = PrecisionPlan.read(export_dir / "plan.json")
    bucket = export.buckets[0]
    models = open_precisions(export_dir, bucket, plan, config.target, config.runtime)
    losses = _losses(context, models)
    decisions = _decisions(context, models)
    noting = _noting({**losses, **decisions})
    close = _fidelity(context, record, bucket, models, noting, folder)
    task = (
        _perplexity(context, losses)
        or _agreement(context, decisions)
        or _similarity(context, record, bucket, models)
    )
    verdict, reasons = judge(close, config.budget.cosine_mean)
    if losses:
        found = judge_perplexity(task, config.budget.perplexity_rise_fraction)
        verdict, reasons = worst(verdict, found[0]), [*reasons, *found[1]]
    if decisions:
        found = judge_agreement(task, config.budget.agreement_fraction)
        verdict, reasons = worst(verdict, found[0]), [*reasons, *found[1]]
    Comparison(
        bucket=bucket.name,
        samples=len(SampleSet(context.folder("10_set") / "evaluation")),
        fidelity={name: close[name] for name in close if name != "qdq_unfused"},
        fidelity_gap=abs(close["int8"].cosine_mean - close["qdq"].cosine_mean),
        flip_noise=abs(close["qdq"].cosine_mean - close["qdq_unfused"].cosine_mean),
        task=task,
        task_metric=_METRICS[config.task.kind] if config.task else "",
        layers=_layers(context, record, export, plan),
        verdict=verdict,
        reasons=tuple(reasons),
    ).write(folder / "comparison.json")


def _fidelity(
    context: Context,
    record: ModelRecord,
    bucket: BucketFiles,
    models: Precisions,
    observe: Observer,
    folder: Path,
) -> dict[str, Fidelity]:
    samples = SampleSet(context.folder("10_set") / "evaluation")
    found: dict[str, Closeness] = compare_outputs(
        models.fp32,
        models.others,
        samples,
        len(samples),
        record,
        bucket.dims,
        context.progress,
        observe,
        folder,
    )
    return {
        name: fidelity(x.cosine, x.max_abs_error, samples.ids, seed=context.config.run.seed)
        for name, x in found.items()
    }


def _losses(context: Context, models: Precisions) -> dict[Precision, TextLosses]:
    """Where the losses of every precision are gathered; empty but for a task of perplexity."""
    task = context.config.task
    if task is None or task.token_input is None:
        return {}
    count = len(SampleSet(context.folder("10_set") / "evaluation"))
    found = dict[Precision, TextLosses]()
    for name in TASK_PRECISIONS:
        if name == REFERENCE or name in models.others:
            found[name] = TextLosses(task.token_input, count)
    return found


def _decisions(context: Context, models: Precisions) -> dict[Precision, Decisions]:
    """Where the decisions of every precision are gathered; empty but for a task of agreement."""
    task = context.config.task
    if task is None or task.kind != "agreement":
        return {}
    found = dict[Precision, Decisions]()
    for name in TASK_PRECISIONS:
        if name == REFERENCE or name in models.others:
            found[name] = Decisions()
    return found


def _noting(gathered: Mapping[Precision, TextLosses | Decisions]) -> Observer:
    by_name = {str(name): seen for name, seen in gathered.items()}

    def observe(
        name: str, index: int, inputs: Mapping[str, NDArray[Any]], outputs: dict[str, NDArray[Any]]
    ) -> None:
        if name in by_name:
            by_name[name].add(index, inputs, outputs)

    return observe


def _perplexity(
    context: Context, losses: Mapping[Precision, TextLosses]
) -> dict[Precision, TaskScore]:
    found = dict[Precision, TaskScore]()
    for name, seen in losses.items():
        low, high = perplexity.perplexity_interval(
            seen.sums, seen.counts, seed=context.config.run.seed
        )
        value = perplexity.perplexity(seen.sums, seen.counts)
        found[name] = TaskScore(value=value, low=low, high=high)
    return found


def _agreement(
    context: Context, decisions: Mapping[Precision, Decisions]
) -> dict[Precision, TaskScore]:
    found = dict[Precision, TaskScore]()
    for name, seen in decisions.items():
        value, low, high = agreement.agreement_score(
            decisions[REFERENCE].classes, seen.classes, seed=context.config.run.seed
        )
        found[name] = TaskScore(value=value, low=low, high=high)
    return found


def _similarity(
    context: Context, record: ModelRecord, bucket: BucketFiles, models: Precisions
) -> dict[Precision, TaskScore]:
    config = context.config
    if config.task is None or config.task.scores is None:
        return {}
    samples = SampleSet(context.folder("10_set") / "task")
    scores = load_scores(config.task.scores, context.loaded.base, len(samples))
    names: tuple[Precision, ...] = ("fp32", "fp16", "int8")
    runners = [models.fp32, models.others["fp16"], models.others["int8"]]
    context.progress("task", 0, 1)
    outputs = collect_outputs(runners, samples, record, bucket.dims)
    for runner in runners:
        runner.close()
    found = dict[Precision, TaskScore]()
    for name, embeddings in zip(names, outputs, strict=True):
        low, high = similarity.similarity_interval(embeddings, scores, seed=config.run.seed)
        value = similarity.similarity_score(embeddings, scores)
        found[name] = TaskScore(value=value, low=low, high=high)
    context.progress("task", 1, 1)
    return found


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
