"""The work of the comparison: fp32, fp16 and int8 on samples that nothing was calibrated with.

int8 is the deploy file itself, read back from disk and lowered to standard integer operators.
"""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.comparison import Comparison, Fidelity, LayerError, Precision, TaskScore
from quantflow.artifacts.export_record import BucketFiles, ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.sample_set import SampleSet
from quantflow.evaluation.comparison import Closeness, collect_outputs, compare_outputs
from quantflow.evaluation.layer_error import layer_errors
from quantflow.evaluation.precisions import Precisions, open_precisions
from quantflow.evaluation.verdict import judge
from quantflow.graph.model_io import load_model
from quantflow.stages.stage import Context
from quantflow.tasks.fidelity import fidelity
from quantflow.tasks.scores import load_scores
from quantflow.tasks.similarity import METRIC, similarity_interval, similarity_score


def work(context: Context, folder: Path) -> None:
    """Write `comparison.json`."""
    config = context.config
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    export_dir = context.folder("40_onnx")
    export = ExportRecord.read(export_dir / "export.json")
    plan = PrecisionPlan.read(export_dir / "plan.json")
    bucket = export.buckets[0]
    models = open_precisions(export_dir, bucket, plan, config.target, config.runtime)
    close = _fidelity(context, record, bucket, models)
    task = _task(context, record, bucket, models)
    verdict, reasons = judge(close, config.budget.cosine_mean)
    Comparison(
        bucket=bucket.name,
        samples=len(SampleSet(context.folder("10_set") / "evaluation")),
        fidelity={name: close[name] for name in close if name != "qdq_unfused"},
        fidelity_gap=abs(close["int8"].cosine_mean - close["qdq"].cosine_mean),
        flip_noise=abs(close["qdq"].cosine_mean - close["qdq_unfused"].cosine_mean),
        task=task,
        task_metric=METRIC if task else "",
        layers=_layers(context, record, export, plan),
        verdict=verdict,
        reasons=tuple(reasons),
    ).write(folder / "comparison.json")


def _fidelity(
    context: Context, record: ModelRecord, bucket: BucketFiles, models: Precisions
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
    )
    return {
        name: fidelity(x.cosine, x.max_abs_error, samples.ids, seed=context.config.run.seed)
        for name, x in found.items()
    }


def _task(
    context: Context, record: ModelRecord, bucket: BucketFiles, models: Precisions
) -> dict[Precision, TaskScore]:
    config = context.config
    if config.task is None:
        return {}
    samples = SampleSet(context.folder("10_set") / "task")
    scores = load_scores(config.task.scores, context.loaded.base, len(samples))
    names: tuple[Precision, ...] = ("fp32", "fp16", "int8")
    runners = [models.fp32, models.others["fp16"], models.others["int8"]]
    context.progress("task", 0, 1)
    outputs = collect_outputs(runners, samples, record, bucket.dims)
    found = dict[Precision, TaskScore]()
    for name, embeddings in zip(names, outputs, strict=True):
        low, high = similarity_interval(embeddings, scores, seed=config.run.seed)
        value = similarity_score(embeddings, scores)
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
