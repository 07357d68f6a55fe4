"""The stages in order, and running them: only what changed, only on what is current."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from quantflow import __version__
from quantflow.errors import fail
from quantflow.stages.comparison import STAGE as COMPARE
from quantflow.stages.stage import Context, Stage
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.stages.stage_1_set import STAGE as SET
from quantflow.stages.stage_2_ranges import STAGE as RANGES
from quantflow.stages.stage_3_sweep import STAGE as SWEEP
from quantflow.stages.stage_4_onnx import STAGE as ONNX
from quantflow.stages.stage_5_om import STAGE as OM

STAGES: tuple[Stage, ...] = (MODEL, SET, RANGES, SWEEP, ONNX, COMPARE, OM)

_BY_FOLDER = {stage.folder: stage for stage in STAGES}


@dataclass(frozen=True, slots=True)
class StageOutcome:
    """What running a stage came to.

    Attributes:
        stage: which.
        ran: false when everything was current and nothing had to be done.
        seconds: how long it took.
        kept: copies of files that a person had edited and the stage has written anew.
    """

    stage: Stage
    ran: bool
    seconds: float
    kept: tuple[Path, ...] = ()


def run_stage(context: Context, stage: Stage) -> StageOutcome:
    """Run one stage, unless its result is there and current.

    Raises:
        QuantflowError: QF404, QF405 or QF407 when a stage it reads is missing, damaged or stale.
    """
    start = time.perf_counter()
    there = [folder for folder in stage.reads_if_there if context.run.manifest(folder)]
    for folder in (*stage.reads, *there):
        _require_current(context, _BY_FOLDER[folder])
    inputs = stage.inputs(context)
    if not context.force and context.run.is_current(stage.folder, __version__, inputs):
        return StageOutcome(stage, ran=False, seconds=time.perf_counter() - start)
    kept = tuple(context.run.keep_edits(stage.folder))
    with context.run.writing(stage.folder, __version__, inputs, afresh=context.force) as folder:
        stage.work(context, folder)
    seconds = time.perf_counter() - start
    context.run.record_time(stage.folder, seconds)
    return StageOutcome(stage, ran=True, seconds=seconds, kept=kept)


def _require_current(context: Context, stage: Stage) -> None:
    manifest = context.run.require(stage.folder, stage.command)
    inputs = stage.inputs(context)
    changed = sorted(
        name
        for name in {*inputs, *manifest.inputs}
        if inputs.get(name) != manifest.inputs.get(name)
    )
    if manifest.version != __version__:
        changed.append("version of quantflow")
    if changed:
        fail(
            "QF407",
            f"{stage.folder} was made from something else: {', '.join(changed)} changed",
            where=str(context.folder(stage.folder)),
            fix=f"rerun `{stage.command}`",
        )
