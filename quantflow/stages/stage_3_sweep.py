"""Stage 3: which groups stay in fp16, found by measurement and verified as a whole."""

from __future__ import annotations

from pathlib import Path

from quantflow.runtime.onnxruntime_build import build_identity
from quantflow.stages.stage import Context, Stage, section_digest
from quantflow.user_code import source_digest


def inputs(context: Context) -> dict[str, str]:
    """Plan, budget, target, quantization and runtime sections, the model, set and ranges."""
    config = context.config
    return {
        "plan": section_digest(config.plan),
        "budget": section_digest(config.budget),
        "target": section_digest(config.target),
        "quantization": section_digest(config.quantization),
        "runtime": section_digest(config.runtime),
        "run.seed": str(config.run.seed),
        **_task(context),
        "onnxruntime": build_identity(),
        "00_model": context.digest_of("00_model"),
        "10_set": context.digest_of("10_set"),
        "20_ranges": context.digest_of("20_ranges"),
        "25_optimize": context.digest_of("25_optimize"),
    }


def _task(context: Context) -> dict[str, str]:
    """What decides the task's figure of a sample; nothing for a task that has none."""
    task = context.config.task
    if task is None or task.sources:
        return {}
    found = {"task": section_digest(task)}
    if task.function is not None:
        found["task.function"] = source_digest(task.function, context.loaded.base)
    return found


def work(context: Context, folder: Path) -> None:
    """Write `plan.json`, which may be edited, and `sweep.json`."""
    from quantflow.stages import work_3_sweep

    work_3_sweep.work(context, folder)


def assist(context: Context) -> None:
    """Do a worker's share."""
    from quantflow.stages import work_3_sweep

    work_3_sweep.assist(context)


STAGE = Stage(
    folder="30_sweep",
    title="sensitivity sweep",
    command="quantflow sweep",
    reads=("00_model", "10_set", "20_ranges"),
    reads_if_there=("25_optimize",),
    inputs=inputs,
    work=work,
    assist=assist,
)
