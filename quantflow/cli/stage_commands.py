"""The commands that run one stage: all the same but for the stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from quantflow.cli.next_command import typed
from quantflow.cli.options import (
    DEFAULT_CONFIG,
    ConfigPath,
    DryRun,
    Force,
    Json,
    Limit,
    Options,
    Overrides,
    Quiet,
    Verbose,
)
from quantflow.cli.output import print_json, print_sheets, remark, say
from quantflow.cli.team import with_workers
from quantflow.errors import ExitCode

_WORDS = {
    ExitCode.GATE_FAILED: "FAILED",
    ExitCode.ENVIRONMENT: "NOT CONVERTED",
    ExitCode.USAGE: "CONVERSION REFUSED",
    ExitCode.ATC_FAILED: "CONVERSION FAILED",
}

_BEFORE_NEXT = {"30_sweep": "edit 30_sweep/plan.json if you like, then "}
"""What a person may do between a stage and the next."""

if TYPE_CHECKING:
    from quantflow.report.artifacts import Artifacts
    from quantflow.runtime.workers import Workers
    from quantflow.stages.pipeline import StageOutcome
    from quantflow.stages.stage import Context


def stage_command(folder: str) -> Callable[..., None]:
    """The command that runs the stage of a folder."""

    def command(
        config: ConfigPath = DEFAULT_CONFIG,
        overrides: Overrides = None,
        limit: Limit = None,
        force: Force = False,
        dry_run: DryRun = False,
        json: Json = False,
        quiet: Quiet = False,
        verbose: Verbose = False,
    ) -> None:
        options = Options(
            config=config,
            overrides=tuple(overrides or ()),
            limit=limit,
            force=force,
            dry_run=dry_run,
            json=json,
            quiet=quiet,
            verbose=verbose,
        )
        raise typer.Exit(with_workers(partial(run_one, folder, options), options))

    return command


def run_one(folder: str, options: Options, workers: Workers, collect: Path | None = None) -> int:
    """Run one stage and show its result.

    Args:
        folder: of the stage.
        options: as given.
        workers: who can help.
        collect: where `convert.py` ran, for `50_om` to be made of that.

    Returns:
        The exit status.
    """
    from quantflow.cli.session import session
    from quantflow.stages.pipeline import STAGES, run_stage
    from quantflow.stages.summary import refresh_summary, refreshed

    stage = next(stage for stage in STAGES if stage.folder == folder)
    with session(options, workers) as context:
        if options.dry_run:
            if folder == "50_om":
                return _show_planned_conversion(context, options)
            return show_forecast(context, [folder], as_json=options.json)
        if options.verbose:
            explain_why(context, folder)
        with context.run.locked():
            with refreshed(context.run):
                if collect is not None:
                    from quantflow.stages.stage_5_om import collecting

                    stage, context = collecting(collect), replace(context, force=True)
                outcome = run_stage(context, stage)
            say_kept(outcome)
            say_discarded(outcome)
            artifacts = refresh_summary(context.run)
    return _show(artifacts, outcome, options, collected=collect is not None)


def show_forecast(context: Context, folders: list[str], *, as_json: bool) -> int:
    """Print what running these stages would do."""
    from quantflow.cli.dry_run import forecast, forecast_sheet, forecast_tree
    from quantflow.stages.pipeline import STAGES

    found = forecast(context, STAGES, chosen=folders)
    if as_json:
        print_json(forecast_tree(found))
    else:
        print_sheets([forecast_sheet(found)])
    return 0


def _show_planned_conversion(context: Context, options: Options) -> int:
    """Print what the conversion would run, and what preflight says of it."""
    from quantflow.cli.dry_run import forecast, forecast_sheet, forecast_tree
    from quantflow.cli.planned_conversion import planned_conversion, shell_line
    from quantflow.report.export_sheets import findings_sheet
    from quantflow.stages.pipeline import STAGES

    found = forecast(context, STAGES, chosen=["50_om"])
    planned = planned_conversion(context)
    if options.json:
        print_json(forecast_tree(found) | (planned.tree() if planned else {}))
        return int(planned.exit_code if planned else ExitCode.OK)
    print_sheets([forecast_sheet(found)])
    if planned is None:
        say("No deploy model yet, so no command to show: `quantflow export-onnx` writes it")
        return int(ExitCode.OK)
    print_sheets([findings_sheet(planned.findings)])
    say(f"Commands, to be run in {planned.directory}, which export-om fills:")
    for name, words in planned.commands.items():
        if name not in planned.probes:
            print(shell_line(words))
    if planned.probes:
        say(f"and {len(planned.probes)} probes without options of your own; --json has them")
    if planned.atc is None:
        say("No atc is here: export-om would write the folder, and convert nothing")
    if any(entry.state != "current" for entry in found if entry.stage != "50_om"):
        say("They are for the deploy models that are there now, which would be made anew")
    if planned.exit_code != ExitCode.OK:
        say("CONVERSION REFUSED | atc would not be started")
    return int(planned.exit_code)


def explain_why(context: Context, folder: str) -> None:
    """Say on stderr why a stage runs, or that it does not."""
    from quantflow.cli.dry_run import forecast
    from quantflow.stages.pipeline import STAGES

    entry = forecast(context, STAGES, chosen=[folder])[-1]
    remark(f"{folder}: {entry.state}{': ' + entry.why if entry.why else ''}")


def say_kept(outcome: StageOutcome) -> None:
    """Say where edits went that the stage has written over."""
    for path in outcome.kept:
        remark(f"{outcome.stage.folder}: your edited file was replaced, a copy is {path}")


def say_discarded(outcome: StageOutcome) -> None:
    """Say which later results are gone, since they do not follow from this one."""
    for folder in outcome.discarded:
        why = f"it was made from something else than {outcome.stage.folder} now holds"
        remark(f"{folder} was removed: {why}")


def _show(artifacts: Artifacts, outcome: StageOutcome, options: Options, *, collected: bool) -> int:
    from quantflow.cli.stage_view import stage_records, stage_sheets
    from quantflow.report.gates import exit_code, gates_of, overall
    from quantflow.report.next_steps import next_steps

    folder = outcome.stage.folder
    gates = gates_of(artifacts, folder)
    code = exit_code(gates, artifacts.om if folder == "50_om" else None)
    words = dict(_WORDS)
    if collected and code == ExitCode.OK and artifacts.om is not None and artifacts.om.rejected:
        # What was there before is in force still, and that is not what was asked for.
        code, words[ExitCode.ATC_FAILED] = ExitCode.ATC_FAILED, "NOT ALL TAKEN OVER"
    if options.json:
        reasons = [reason for gate in gates for reason in gate.reasons]
        stopped = code in (ExitCode.USAGE, ExitCode.ATC_FAILED)
        if stopped and artifacts.om is not None:
            from quantflow.ascend.convert import problems

            reasons += [f"{x.code} {x.what}" for x in problems(artifacts.om)]
            reasons += [f"{x.where}: {x.what}" for x in artifacts.om.rejected if collected]
        verdict = {"verdict": "fail" if stopped else overall(gates), "reasons": reasons}
        head = {"stage": folder, "ran": outcome.ran, **verdict}
        print_json({**head, **stage_records(artifacts, folder)})
        return int(code)
    print_sheets(stage_sheets(artifacts, folder))
    for gate in gates:
        for line in gate.reasons or (gate.name,):
            say(f"{gate.verdict}: {line}")
    done = f"{outcome.seconds:.1f} s" if outcome.ran else "nothing changed"
    word, steps = words.get(code, "DONE"), next_steps(artifacts)
    if folder == "50_om":  # the comparison may be left to do, beside what is to be done with it
        following = "; ".join(steps[:2])
    else:
        following = _next_command(folder) if code == ExitCode.OK else steps[0]
    following = typed(following, options.config, options.overrides, options.limit)
    say(f"{word} {folder} | {done} | next: {following}")
    return int(code)


def _next_command(folder: str) -> str:
    from quantflow.stages.pipeline import STAGES

    folders = [stage.folder for stage in STAGES]
    following = STAGES[folders.index(folder) + 1 :]
    command = following[0].command if following else "quantflow report"
    return f"{_BEFORE_NEXT.get(folder, '')}{command}"
