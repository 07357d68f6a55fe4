"""The work of stage 1: the calibration set, and the samples that judge it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx_ir as ir

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sample_set import SampleSet, SetRecord
from quantflow.calibration.build import build_sets
from quantflow.calibration.features.model import ModelFeatures
from quantflow.graph.model_io import load_model
from quantflow.runtime.batch_mixing import check_mixing
from quantflow.runtime.bucket_run import fit_sample
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.stages.stage import Context
from quantflow.tasks.truth import load_truth


def work(context: Context, folder: Path) -> None:
    """Write one folder a set, and `drift.json`: does the calibration set look like deployment?"""
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    model = load_model(context.folder("00_model") / "model.onnx")
    runner = OnnxRuntimeRunner(model, context.config.runtime)
    sets = build_sets(
        context.config,
        context.loaded.base,
        record.inputs,
        folder,
        context.progress,
        model=model_features(context, record, model),
        model_digest=context.model_digest,
    )
    for directory in sorted(path.parent for path in folder.glob("*/set.json")):
        for sample in SampleSet(directory):
            # Better here than after the ranges were measured on samples that cannot be exported.
            first, *others = context.config.target.buckets
            fit_sample(sample, record, first, others)
    _check_truth(context, sets)
    _check_mixing(context, record, runner, SampleSet(folder / "calibration"))


def model_features(context: Context, record: ModelRecord, model: ir.Model) -> ModelFeatures | None:
    """What the model makes of samples, where these are compared with production."""
    sets = context.config.set
    if sets.deployment is None and sets.profile is None:
        return None
    return ModelFeatures.of(model, record, context.config.runtime, context.config.target.buckets)


def _check_truth(context: Context, sets: Mapping[str, SetRecord]) -> None:
    """Better here than in the comparison; a function that judges is called there alone."""
    task = context.config.task
    if task is not None and task.sources and not task.functions:
        sizes = {name: len(found.samples) for name, found in sets.items()}
        load_truth(task, context.loaded.base, sizes)


def _batch(context: Context, record: ModelRecord) -> int:
    first = record.inputs[0].shape[0]
    return first if isinstance(first, int) else context.config.runtime.batch


def _check_mixing(
    context: Context, record: ModelRecord, runner: OnnxRuntimeRunner, samples: SampleSet
) -> None:
    """Raise QF214 for a model that mixes samples, as two different ones tell."""
    bucket, size = context.config.target.buckets[0], _batch(context, record)
    others = [i for i, digest in enumerate(samples.digests) if digest != samples.digests[0]]
    if size == 1 or not others:
        return
    rows = [fit_sample(x, record, bucket) for x in samples.first(others[0] + 1)]
    check_mixing(runner, rows[0], rows[-1], size, record.outputs)
