"""`quantflow run`: all stages in order, then the report."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

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
from quantflow.cli.stage_commands import explain_why, say_discarded, say_kept, show_forecast
from quantflow.cli.team import with_workers
from quantflow.errors import ExitCode

if TYPE_CHECKING:
    from quantflow.report.artifacts import Artifacts
    from quantflow.report.gates import Gate
    from quantflow.runtime.workers import Workers
    from quantflow.stages.pipeline import StageOutcome
    from quantflow.stages.stage import Context

_FAILURES: dict[int, str] = {
    ExitCode.GATE_FAILED: "FAILED",
    ExitCode.USAGE: "CONVERSION REFUSED",
    ExitCode.ATC_FAILED: "CONVERSION FAILED",
}

KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Go on after a failed gate; still exits 1.")
]


def run(
    config: ConfigPath = DEFAULT_CONFIG,
    overrides: Overrides = None,
    limit: Limit = None,
    keep_going: KeepGoing = False,
    force: Force = False,
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run all stages that are not current, then write the report.

    Stops at a gate that fails. Exit status: 0 passed, 1 a gate failed, 2 usage or configuration,
    3 passed but not converted for want of atc, 4 atc failed.

    \b
    Examples:
      quantflow run
      quantflow run --limit 8 --set run.directory=try
      quantflow run --dry-run
      quantflow run --json -q | jq .verdict
    """
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
    work = partial(run_all, options, keep_going=keep_going)
    raise typer.Exit(with_workers(work, options))


def run_all(options: Options, workers: Workers, *, keep_going: bool) -> int:
    """Run every stage, write the report and show what came out.

    Returns:
        The exit status.
    """
    from quantflow.ascend.required_options import refuse, wrong_options
    from quantflow.cli.session import session
    from quantflow.report.html import report_is_fresh, write_report
    from quantflow.stages.pipeline import STAGES
    from quantflow.stages.summary import refresh_summary, refreshed

    start = time.perf_counter()
    with session(options, workers) as context:
        if options.dry_run:
            folders = [stage.folder for stage in STAGES]
            return show_forecast(context, folders, as_json=options.json)
        _import_late_functions(context)
        refuse(wrong_options(context.loaded))
        with context.run.locked():
            with refreshed(context.run):
                outcomes = _run_stages(context, options, keep_going=keep_going)
            artifacts = refresh_summary(context.run)
            page = context.run.root / "report.html"
            if not report_is_fresh(context.run, page):
                write_report(context.run, page)
    seconds = time.perf_counter() - start
    return _show(context, artifacts, outcomes, seconds, options)


def _import_late_functions(context: Context) -> None:
    """Import what only a late stage calls, so that nobody waits to hear that it is not there.

    Raises:
        QuantflowError: QF105 when it is not.
    """
    from quantflow.user_code import load_function

    task = context.config.task
    for name in task.functions.values() if task else ():
        load_function(name, context.loaded.base)


def _run_stages(context: Context, options: Options, *, keep_going: bool) -> list[StageOutcome]:
    from quantflow.report.artifacts import read_artifacts
    from quantflow.report.gates import gates_of, overall
    from quantflow.stages.pipeline import STAGES, run_stage
    from quantflow.stages.summary import refresh_summary

    outcomes: list[StageOutcome] = []
    for number, stage in enumerate(STAGES, 1):
        if options.verbose:
            explain_why(context, stage.folder)
        outcome = run_stage(context, stage)
        outcomes.append(outcome)
        say_kept(outcome)
        say_discarded(outcome)
        if outcome.ran:  # even a kill later leaves a summary of what is there
            refresh_summary(context.run)
        result = read_artifacts(context.run, only=(stage.folder,))
        verdict = overall(gates_of(result, stage.folder))
        if not options.quiet:
            took = f"{outcome.seconds:.1f} s" if outcome.ran else "nothing changed"
            failed = ", gate failed" if verdict == "fail" else ""
            remark(f"[{number}/{len(STAGES)}] {stage.title}: {took}{failed}")
        if verdict == "fail" and not keep_going:
            break
    return outcomes


def _show(
    context: Context,
    artifacts: Artifacts,
    outcomes: list[StageOutcome],
    seconds: float,
    options: Options,
) -> int:
    from quantflow.report.comparison_sheets import gates_sheet, precisions_sheet
    from quantflow.report.gates import all_gates, exit_code, overall
    from quantflow.report.next_steps import next_steps
    from quantflow.report.paired_sheets import all_sheets

    gates = all_gates(artifacts)
    code = int(exit_code(gates, artifacts.om))
    files = {"summary": "summary.json", "report": "report.html"}
    paths = {name: context.run.root / file for name, file in files.items()}
    paths = {name: str(path) for name, path in paths.items() if path.exists()}
    if options.json:
        print_json(_as_json(artifacts, outcomes, paths, code))
        return code
    if artifacts.comparison is not None:
        precisions = precisions_sheet(artifacts.comparison, artifacts.export)
        print_sheets([precisions, *all_sheets(artifacts.comparison)])
    if overall(gates) != "pass":
        print_sheets([gates_sheet(gates)])
    for line in (_facts_line(artifacts), *(f"{name}: {path}" for name, path in paths.items())):
        say(line)
    ran = sum(outcome.ran for outcome in outcomes)
    work = f"{seconds:.1f} s" if ran else "nothing changed"
    following = typed(next_steps(artifacts)[0], options.config, options.overrides, options.limit)
    say(f"{_word(code, gates)} | {work} | next: {following}")
    return code


def _as_json(
    artifacts: Artifacts, outcomes: list[StageOutcome], paths: dict[str, str], code: int
) -> dict[str, Any]:
    from dataclasses import asdict

    from quantflow.report.gates import all_gates, overall

    gates = all_gates(artifacts)
    summary = artifacts.summary.to_tree() if artifacts.summary else None
    return {
        "verdict": overall(gates),
        "exit_code": code,
        "stages": [
            {"stage": x.stage.folder, "ran": x.ran, "seconds": round(x.seconds, 3)}
            for x in outcomes
        ],
        "gates": [asdict(gate) for gate in gates],
        "summary": summary,
        "files": paths,
    }


def _facts_line(artifacts: Artifacts) -> str:
    from quantflow.artifacts.om_record import elsewhere_text
    from quantflow.report.sheet import cosine_text, share_text

    facts: list[str] = []
    if artifacts.export is not None:
        facts.append(f"INT8: {share_text(artifacts.export.int8_mac_fraction, 1)} of MACs")
    if artifacts.plan is not None:
        facts.append(f"fp16 groups: {len(artifacts.plan.fp16_groups)}")
        facts.append(f"fp32 islands: {len(artifacts.plan.islands)}")
    if artifacts.parity is not None:
        cosine = cosine_text(artifacts.parity.cosine_min)
        facts.append(f"parity: {artifacts.parity.verdict}, least cosine {cosine}")
    if artifacts.om is not None:
        facts.append(f"om: {artifacts.om.status}")
        facts += [
            f"converted on another machine: {elsewhere_text(x)}" for x in artifacts.om.elsewhere
        ]
    return " | ".join(facts)


def _word(code: int, gates: list[Gate]) -> str:
    if code in _FAILURES:
        return _FAILURES[code]
    warning = [gate.name for gate in gates if gate.verdict == "warn"]
    word = "PASSED WITH WARNINGS" if warning else "PASSED"
    word += ", NOT CONVERTED" if code == ExitCode.ENVIRONMENT else ""
    if not warning:
        return word
    count = "1 gate warns" if len(warning) == 1 else f"{len(warning)} gates warn"
    return f"{word} ({count}: {', '.join(warning)})"
