"""The comparison: fp32, fp16 and int8 on samples that nothing was calibrated with."""

from __future__ import annotations

from pathlib import Path

from quantflow.runtime.onnxruntime_build import build_identity
from quantflow.stages.stage import Context, Stage, section_digest
from quantflow.tasks.given_numbers import numbers_digest
from quantflow.user_code import source_digest


def inputs(context: Context) -> dict[str, str]:
    """Budget, task and target sections, the exported files and the sets."""
    config, base = context.config, context.loaded.base
    digests = {
        "budget": section_digest(config.budget),
        "target": section_digest(config.target),
        "runtime": section_digest(config.runtime),
        "run.seed": str(config.run.seed),
        "onnxruntime": build_identity(),
        "00_model": context.digest_of("00_model"),
        "10_set": context.digest_of("10_set"),
        "40_onnx": context.digest_of("40_onnx"),
    }
    if config.task is not None:
        digests["task"] = section_digest(config.task)
        digests |= {k: numbers_digest(name, base) for k, name in config.task.numbers.items()}
    if config.task is not None and config.task.function is not None:
        digests["task.function"] = source_digest(config.task.function, base)
    return digests


def work(context: Context, folder: Path) -> None:
    """Write `comparison.json`."""
    from quantflow.stages import work_comparison

    work_comparison.work(context, folder)


STAGE = Stage(
    folder="45_compare",
    title="comparison",
    command="quantflow compare",
    reads=("00_model", "10_set", "40_onnx"),
    inputs=inputs,
    work=work,
)
