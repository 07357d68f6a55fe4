"""Stage 1: the calibration set, and the samples that judge it."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.digest import value_digest
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.sample_set import SampleSet
from quantflow.calibration.build import build_sets
from quantflow.calibration.features.model import OutputFeatures
from quantflow.calibration.preprocess import preprocess_digest
from quantflow.calibration.sources import source_digest
from quantflow.runtime.bucket_run import fit_sample
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner, build_identity
from quantflow.stages.stage import Context, Stage, section_digest


def inputs(context: Context) -> dict[str, str]:
    """The sections on data, the seed, the content of every source, the model's inputs."""
    config, base = context.config, context.loaded.base
    digests = {
        "set": section_digest(config.set),
        "run.seed": str(config.run.seed),
        "set.preprocess": preprocess_digest(config.set.preprocess, base),
        "model inputs": _model_inputs(context),
        "target.buckets": value_digest(config.target.buckets[0]),
    }
    sources = {
        "set.candidates": config.set.candidates,
        "set.deployment": config.set.deployment,
        "set.evaluation": config.set.evaluation,
        "task.source": config.task.source if config.task else None,
    }
    for name, source in sources.items():
        if source is not None:
            digests[name] = source_digest(source, base)
    if config.set.deployment is not None:  # what the model makes of it is compared, too
        digests["00_model"] = context.digest_of("00_model")
        digests["runtime"] = section_digest(config.runtime)
        digests["onnxruntime"] = build_identity()
    return digests


def _model_inputs(context: Context) -> str:
    path = context.folder("00_model") / "model.json"
    if not path.exists():
        return ""
    record = ModelRecord.read(path)
    return value_digest([tensor.model_dump(mode="json") for tensor in record.inputs])


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
            fit_sample(sample, record, context.config.target.buckets[0])


def _output_features(context: Context, record: ModelRecord) -> OutputFeatures | None:
    config = context.config
    if config.set.deployment is None:
        return None
    runner = OnnxRuntimeRunner(context.folder("00_model") / "model.onnx", config.runtime)
    first = record.inputs[0].shape[0]
    batch = first if isinstance(first, int) else config.runtime.batch
    return OutputFeatures(runner, record, batch)


STAGE = Stage(
    folder="10_set",
    title="calibration set",
    command="quantflow build-set",
    reads=("00_model",),
    inputs=inputs,
    work=work,
)
