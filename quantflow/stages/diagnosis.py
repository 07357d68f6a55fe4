"""The diagnosis: what the accuracy loss of the INT8 model comes from.

It is no part of `quantflow run`, since it costs several passes.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

from quantflow.artifacts.digest import file_digest, value_digest
from quantflow.evaluation.asked import Asked, Missed
from quantflow.runtime.onnxruntime_build import build_identity
from quantflow.stages.stage import Context, Stage, section_digest
from quantflow.user_code import source_digest

FOLDER = "46_diagnosis"


def diagnosis_stage(asked: Asked) -> Stage:
    """The stage for what is asked."""
    return Stage(
        folder=FOLDER,
        title="diagnosis",
        command="quantflow diagnose",
        reads=("00_model", "10_set", "20_ranges"),
        reads_if_there=("25_optimize", "30_sweep"),
        inputs=partial(inputs, asked=asked),
        work=partial(work, asked=asked),
    )


def inputs(context: Context, *, asked: Asked) -> dict[str, str]:
    """What is asked, sections but `model`, `optimize` and `atc`, the plan, model, sets, ranges."""
    config = context.config
    plan = context.folder("30_sweep") / "plan.json"
    digests = {
        "samples": str(asked.samples),
        "anyway": str(asked.anyway),
        "missed by the comparison": _told(asked.missed),
        "budget": section_digest(config.budget),
        "plan": section_digest(config.plan),
        "quantization": section_digest(config.quantization),
        "runtime": section_digest(config.runtime),
        "set": section_digest(config.set),
        "target": section_digest(config.target),
        "run.seed": str(config.run.seed),
        "onnxruntime": build_identity(),
        "00_model": context.digest_of("00_model"),
        "10_set": context.digest_of("10_set"),
        "20_ranges": context.digest_of("20_ranges"),
        "25_optimize": context.digest_of("25_optimize"),
        "30_sweep": context.digest_of("30_sweep"),
        "30_sweep/plan.json": file_digest(plan) if plan.exists() else "",
    }
    if config.task is not None:
        digests["task"] = section_digest(config.task)
        if config.task.function is not None:
            digests["task.function"] = source_digest(config.task.function, context.loaded.base)
    return digests


def work(context: Context, folder: Path, *, asked: Asked) -> None:
    """Write `diagnosis.json`."""
    from quantflow.stages import work_diagnosis

    work_diagnosis.work(context, folder, asked)


def _told(missed: Missed | None) -> str:
    return "" if missed is None else value_digest(asdict(missed))
