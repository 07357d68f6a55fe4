"""`quantflow diagnose`: what the accuracy loss of the INT8 model comes from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from quantflow.cli.next_command import typed
from quantflow.cli.options import (
    DEFAULT_CONFIG,
    ConfigPath,
    Force,
    Json,
    Options,
    Overrides,
    Quiet,
    Verbose,
)
from quantflow.cli.output import print_json, print_sheets, remark, say
from quantflow.cli.team import with_workers
from quantflow.errors import ExitCode

if TYPE_CHECKING:
    from quantflow.artifacts.diagnosis_record import DiagnosisRecord
    from quantflow.report.artifacts import Artifacts
    from quantflow.runtime.workers import Workers
    from quantflow.stages.pipeline import StageOutcome
    from quantflow.stages.stage import Context

Samples = Annotated[
    int,
    typer.Option("--samples", min=2, metavar="N", help="Evaluation samples, as far as there are."),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        min=1,
        metavar="N",
        help="The one the run was made with; for fewer samples of a full run see --samples.",
    ),
]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Explain the loss even where it is within the budget.")
]


def diagnose(
    config: ConfigPath = DEFAULT_CONFIG,
    overrides: Overrides = None,
    samples: Samples = 32,
    anyway: Anyway = False,
    limit: Limit = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Put the accuracy loss of the INT8 model down to its cause, with the next command.

    The plan in force is compared, on the same evaluation samples, with the model with one thing
    changed: ranges of deployment samples, other estimators, weight scales per channel, weights or
    activations in float, the most harmful groups in fp16. What surely removes half of the loss or
    more is the cause. Takes a calibrated run; the sweep may still be to do. Exits 0 within the
    budget, 1 otherwise, as where a current comparison has missed it. Within the budget nothing is
    tried, unless --anyway is given. What was measured before a kill is not measured again.

    \b
    Examples:
      quantflow diagnose
      quantflow diagnose --samples 64
      quantflow diagnose --anyway
      quantflow diagnose --json -q | jq .diagnosis.sentence
    """
    options = Options(
        config=config,
        overrides=tuple(overrides or ()),
        limit=limit,
        force=force,
        json=json,
        quiet=quiet,
        verbose=verbose,
    )
    raise typer.Exit(with_workers(partial(_run, options, samples, anyway), options))


def _run(options: Options, samples: int, anyway: bool, workers: Workers) -> int:
    """Diagnose and show the result; returns the exit status."""
    from quantflow.artifacts.diagnosis_record import DiagnosisRecord
    from quantflow.cli.session import session
    from quantflow.evaluation.asked import Asked
    from quantflow.stages.diagnosis import diagnosis_stage
    from quantflow.stages.missed_budget import missed_budget
    from quantflow.stages.pipeline import run_stage
    from quantflow.stages.summary import refresh_summary

    with session(options, workers) as context:
        with context.run.locked():
            stage = diagnosis_stage(Asked(samples, anyway, missed_budget(context)))
            outcome = run_stage(context, stage)
            artifacts = refresh_summary(context.run)
        found = DiagnosisRecord.read(context.folder(stage.folder) / "diagnosis.json")
        if found.finding == "nothing":
            found = found.model_copy(update={"next_step": _step(context, artifacts)})
    code = ExitCode.GATE_FAILED if found.misses_budget else ExitCode.OK
    if options.json:
        head = {"stage": stage.folder, "ran": outcome.ran, "exit_code": int(code)}
        print_json({**head, "diagnosis": found.to_tree()})
    else:
        _show(found, outcome, options)
    return int(code)


def _step(context: Context, artifacts: Artifacts) -> str:
    """What is to be done next where there is nothing to explain; a later stage may change it."""
    from dataclasses import replace

    from quantflow.report.next_steps import next_steps
    from quantflow.stages.missed_budget import comparison_is_current

    if not comparison_is_current(context):  # else one of another budget is held against this one
        artifacts = replace(artifacts, comparison=None)
    return next_steps(artifacts)[0]


def _show(found: DiagnosisRecord, outcome: StageOutcome, options: Options) -> None:
    from quantflow.report.diagnosis_sheets import experiments_sheet

    print_sheets([experiments_sheet(found)])
    done = f"{outcome.seconds:.1f} s" if outcome.ran else "nothing changed"
    words = {"nothing": "", "spread": "NO SINGLE CAUSE"}
    cause = words.get(found.finding, f"CAUSE: {found.finding}")
    word = cause if found.misses_budget else ", ".join(filter(None, ["WITHIN THE BUDGET", cause]))
    following = typed(found.next_step, options.config, options.overrides, options.limit)
    say(f"{word} {outcome.stage.folder} | {done} | next: {following}")
    if "--set" in found.next_step:
        remark("--set holds for one command: write what helps into the configuration")
