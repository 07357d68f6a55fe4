"""Which stages would run, and why, without running any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from quantflow import __version__
from quantflow.report.sheet import Sheet
from quantflow.stages.stage import Context, Stage

State = Literal["would run", "may run", "needed first", "current"]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would become of a stage.

    Attributes:
        stage: its folder.
        state: `may run` when that depends on what an earlier stage comes to; `needed first` when
            it is not among those to run, but they would be refused without it.
        why: in a few words; empty when it is current.
    """

    stage: str
    state: State
    why: str


def forecast(context: Context, stages: Sequence[Stage], *, chosen: Sequence[str]) -> list[Forecast]:
    """What running the `chosen` stages would do.

    Args:
        context: as for running them.
        stages: all stages in pipeline order.
        chosen: folders of the stages to run; `force` concerns these.
    """
    found: dict[str, Forecast] = {}
    for stage in stages:
        forced = context.force and stage.folder in chosen
        state, why = _state(context, stage, found, chosen, forced=forced)
        if state in ("would run", "may run"):
            why += _edits(context, stage)
        if stage.folder not in chosen and state != "current":
            state, why = "needed first", f"{why}: {stage.command}"
        found[stage.folder] = Forecast(stage.folder, state, why)
    wanted = _with_sources(stages, chosen)
    return [entry for entry in found.values() if entry.stage in wanted]


def forecast_sheet(found: Sequence[Forecast]) -> Sheet:
    """A row a stage."""
    rows = tuple((entry.stage, entry.state, entry.why) for entry in found)
    return Sheet("Nothing is done", ("stage", "state", "why"), "lll", rows)


def forecast_tree(found: Sequence[Forecast]) -> dict[str, Any]:
    """For JSON."""
    return {"stages": [asdict(entry) for entry in found]}


def _state(
    context: Context,
    stage: Stage,
    found: dict[str, Forecast],
    chosen: Sequence[str],
    *,
    forced: bool,
) -> tuple[State, str]:
    manifest = context.run.manifest(stage.folder)
    if manifest is None:
        return "would run", "has not run"
    if forced:
        return "would run", "--force"
    there = [x for x in stage.reads_if_there if x in chosen or context.run.manifest(x)]
    unsettled = [x for x in (*stage.reads, *there) if found[x].state != "current"]
    if unsettled:
        return "may run", f"if the result of {', '.join(unsettled)} changes"
    inputs = stage.inputs(context)
    changed = [x for x in {**inputs, **manifest.inputs} if inputs.get(x) != manifest.inputs.get(x)]
    if changed:
        return "would run", f"changed: {', '.join(sorted(changed))}"
    if manifest.version != __version__:
        return "would run", f"made by quantflow {manifest.version}"
    if not context.run.is_current(stage.folder, __version__, inputs):
        return "would run", "a file is not what the stage wrote"
    return "current", ""


def _edits(context: Context, stage: Stage) -> str:
    """What would become of files that a person has edited."""
    edits = context.run.edits(stage.folder)
    return "".join(
        f"; it replaces {stage.folder}/{name}, which was edited, and keeps a copy as {copy.name}"
        for name, copy in edits.items()
    )


def _with_sources(stages: Sequence[Stage], chosen: Sequence[str]) -> set[str]:
    """The chosen stages and all that they read, directly or not."""
    wanted = set(chosen)
    for stage in reversed(stages):
        if stage.folder in wanted:
            wanted.update(stage.reads)
    return wanted
