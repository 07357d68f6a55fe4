"""Stage 0: the canonical model, its layers, roles and groups."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.digest import path_digest, value_digest
from quantflow.stages.stage import Context, Stage, section_digest
from quantflow.user_code import source_digest


def inputs(context: Context) -> dict[str, str]:
    """The model section, op table, first bucket, optional layers, the task's kind, the origin."""
    config, loaded = context.config, context.loaded
    digests = {
        "model": section_digest(config.model),
        "target.cann": config.target.cann,
        "target.buckets": value_digest(config.target.buckets[0]),
        "quantization.optional_layers": value_digest(list(config.quantization.optional_layers)),
    }
    if config.task is not None:
        digests["task.kind"] = config.task.kind
    if config.model.factory is not None:
        digests["model.factory"] = source_digest(config.model.factory, loaded.base)
    if config.model.onnx is not None:
        # Imported here: only such a model has to be opened to know its files.
        from quantflow.graph.from_onnx import external_files

        path = loaded.resolve(config.model.onnx)
        digests["model.onnx"] = value_digest(
            [path_digest(file) for file in (path, *external_files(path))]
        )
    for name in config.model.depends:
        digests[f"model.depends: {name}"] = path_digest(loaded.resolve(name))
    return digests


def work(context: Context, folder: Path) -> None:
    """Write `model.onnx` and `model.json`."""
    from quantflow.stages import work_0_model

    work_0_model.work(context, folder)


STAGE = Stage(
    folder="00_model",
    title="canonical model",
    command="quantflow prepare",
    reads=(),
    inputs=inputs,
    work=work,
)
