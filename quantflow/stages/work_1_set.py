"""The work of stage 1: the calibration set, and the samples that judge it."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.calibration.build import build_sets
from quantflow.calibration.features.model import OutputFeatures
from quantflow.graph.model_io import load_model
from quantflow.runtime.bucket_run import fit_sample
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.stages.stage import Context


def work(context: Context, folder: Path) -> None:
    """Write one folder a set, and `drift.json`: does the calibration set look like deployment?"""
    record = ModelRecord.read(context.folder("00_model") / "model.json")
    build_sets(
        context.config,
        context.loaded.base,
        record.inputs,
        folder,
        context.progress,
        outputs=_output_features(context, record),
    )
    for directory in sorted(path.parent for path in folder.glob("*/set.json")):
        for sample in SampleSet(directory):
            # Better here than after the ranges were measured on samples that cannot be exported.
            first, *others = context.config.target.buckets
            fit_sample(sample, record, first, others)


def _output_features(context: Context, record: ModelRecord) -> OutputFeatures | None:
    config = context.config
    if config.set.deployment is None:
        return None
    model = load_model(context.folder("00_model") / "model.onnx")
    runner = OnnxRuntimeRunner(model, config.runtime)
    first = record.inputs[0].shape[0]
    batch = first if isinstance(first, int) else config.runtime.batch
    return OutputFeatures(runner, record, batch)
