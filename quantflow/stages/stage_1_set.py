"""Stage 1: the calibration set, and the samples that judge it."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.digest import file_digest, value_digest
from quantflow.artifacts.model_record import ModelRecord
from quantflow.calibration.preprocess import preprocess_digest
from quantflow.calibration.sources import source_digest
from quantflow.config import resolve_path
from quantflow.errors import fail
from quantflow.runtime.onnxruntime_build import build_identity
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
        **config.task_sources,
    }
    for name, source in sources.items():
        if source is not None:
            digests[name] = source_digest(source, base)
    if config.set.profile is not None:
        path = resolve_path(config.set.profile, base)
        if not path.is_file():
            fail("QF104", f"no such file: {path}", where="set.profile", fix="check the path")
        digests["set.profile"] = file_digest(path)
    if not (config.set.deployment is None and config.set.profile is None):
        # What the model makes of it is compared, too.
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
    from quantflow.stages import work_1_set

    work_1_set.work(context, folder)


STAGE = Stage(
    folder="10_set",
    title="calibration set",
    command="quantflow build-set",
    reads=("00_model",),
    inputs=inputs,
    work=work,
)
