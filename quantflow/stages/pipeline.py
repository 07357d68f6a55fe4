"""The stages in order, and running them: only what changed, only on what is current."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quantflow import __version__
from quantflow.errors import QuantflowError, fail
from quantflow.stages.comparison import STAGE as COMPARE
from quantflow.stages.made_with import note_provenance
from quantflow.stages.stage import Context, Stage
from quantflow.stages.stage_0_model import STAGE as MODEL
from quantflow.stages.stage_1_set import STAGE as SET
from quantflow.stages.stage_2_ranges import STAGE as RANGES
from quantflow.stages.stage_3_sweep import STAGE as SWEEP
from quantflow.stages.stage_4_onnx import STAGE as ONNX
from quantflow.stages.stage_5_om import STAGE as OM
from quantflow.stages.stage_25_optimize import STAGE as OPTIMIZE

STAGES: tuple[Stage, ...] = (MODEL, SET, RANGES, OPTIMIZE, SWEEP, ONNX, COMPARE, OM)

_BY_FOLDER = {stage.folder: stage for stage in STAGES}


@dataclass(frozen=True, slots=True)
class StageOutcome:
    """What running a stage came to.

    Attributes:
        stage: which.
        ran: false when everything was current and nothing had to be done.
        seconds: how long it took.
        kept: copies of files that a person had edited and the stage has written anew.
        discarded: folders of later stages that were removed, since they do not follow from it.
    """

    stage: Stage
    ran: bool
    seconds: float
    kept: tuple[Path, ...] = ()
    discarded: tuple[str, ...] = ()


def run_stage(context: Context, stage: Stage) -> StageOutcome:
    """Run one stage, unless its result is there and current.

    Raises:
        QuantflowError: QF404, QF405 or QF407 when a stage it reads is missing, damaged or stale.
    """
    start = time.perf_counter()
    there = [folder for folder in stage.reads_if_there if context.run.manifest(folder)]
    for folder in (*stage.reads, *there):
        require_current(context, _BY_FOLDER[folder])
    inputs = stage.inputs(context)
    if not context.force and context.run.is_current(stage.folder, __version__, inputs):
        context.run.drop_attempt(stage.folder)
        return StageOutcome(stage, ran=False, seconds=time.perf_counter() - start)
    kept = tuple(context.run.keep_edits(stage.folder))
    with context.run.writing(stage.folder, __version__, inputs, afresh=context.force) as folder:
        if stage.assist is not None:
            context.workers.assign({"stage": stage.folder, "inputs": _identity(inputs)})
        stage.work(context, folder)
    seconds = time.perf_counter() - start
    context.run.record_time(stage.folder, seconds)
    note_provenance(context, stage.folder)
    discarded = tuple(_discard_conversion(context))
    return StageOutcome(stage, ran=True, seconds=seconds, kept=kept, discarded=discarded)


def assist(context: Context, folder: str, inputs: Mapping[str, str]) -> None:
    """Do a worker's share of a stage that the leader runs.

    Args:
        context: of this worker.
        folder: of the stage.
        inputs: what the leader has the stage made from.

    Raises:
        QuantflowError: QF606 when this worker would make it from something else; what `run_stage`
            raises when a stage it reads is missing, damaged or stale.
    """
    stage = _BY_FOLDER[folder]
    for name in stage.reads:
        require_current(context, _BY_FOLDER[name])
    changed = _differences(_identity(stage.inputs(context)), inputs)
    if changed:
        fail(
            "QF606",
            f"worker and leader differ in: {', '.join(changed)}",
            where=str(context.run.root),
            fix="share the run directory; give all workers the same configuration and versions",
        )
    if stage.assist is not None:
        stage.assist(context)


def _discard_conversion(context: Context) -> list[str]:
    """Remove a conversion that no longer follows from the stages before it.

    Other stages refuse what is stale; this folder is ready to be carried off and converted.
    """
    if _conversion_follows(context) or not context.run.discard(OM.folder):
        return []
    return [OM.folder]


def _conversion_follows(context: Context) -> bool:
    """Whether there is a conversion whose sources are what it was made from, and current.

    Its other inputs do not count: one made where atc is found is good in a shell without it.
    """
    try:
        manifest = context.run.manifest(OM.folder)
        if manifest is None:
            return False
        compared = [COMPARE.folder] if manifest.inputs.get(COMPARE.folder) else []
        return all(
            manifest.inputs.get(name) == context.digest_of(name) and is_current(context, name)
            for name in (*OM.reads, *compared)
        )
    except QuantflowError:  # what cannot be read, or described, is not what it was made from
        return False


def is_current(context: Context, folder: str) -> bool:
    """Whether a stage that has run, and all that it reads, would not run again."""
    stage = _BY_FOLDER[folder]
    there = [name for name in stage.reads_if_there if context.run.manifest(name)]
    return context.run.is_current(folder, __version__, stage.inputs(context)) and all(
        is_current(context, name) for name in (*stage.reads, *there)
    )


def _identity(inputs: Mapping[str, str]) -> dict[str, str]:
    """All that decides a stage's result."""
    return {**inputs, "version of quantflow": __version__}


def _differences(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*a, *b} if a.get(name) != b.get(name))


def require_current(context: Context, stage: Stage) -> None:
    """Refuse a stage that has not run, is damaged or was made from something else.

    Raises:
        QuantflowError: QF404, QF405 or QF407.
    """
    manifest = context.run.require(stage.folder, stage.command)
    require_same(context, stage, stage.inputs(context), manifest.inputs, manifest.version)


def require_same(
    context: Context,
    stage: Stage,
    wanted: Mapping[str, str],
    made: Mapping[str, str],
    version: str,
    otherwise: str = "",
) -> None:
    """Refuse a stage that was made from something else.

    Args:
        context: of its run.
        stage: that is finished.
        wanted: digests of what it should be made from, by name.
        made: of what it was made from.
        version: of the quantflow that made it.
        otherwise: what may be done instead of running it again.

    Raises:
        QuantflowError: QF407.
    """
    changed = _differences(wanted, made)
    if version != __version__:
        changed.append("version of quantflow")
    if changed:
        fail(
            "QF407",
            f"{stage.folder} was made from something else: {', '.join(changed)} changed",
            where=str(context.folder(stage.folder)),
            fix=f"rerun `{stage.command}`{otherwise}{_other_limit(changed)}",
        )


def _other_limit(changed: Sequence[str]) -> str:
    """What else may be wrong where sets are of another size: `--limit` is part of that section."""
    if "set" not in changed:
        return ""
    return "; or, if the run was made with another --limit, or without one, do the same here"
