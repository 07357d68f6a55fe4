"""`quantflow profile` and `quantflow watch`: what production sends, kept in brief and judged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quantflow.cli.next_command import typed
from quantflow.cli.options import (
    DEFAULT_CONFIG,
    ConfigPath,
    Json,
    Options,
    Overrides,
    Quiet,
)
from quantflow.cli.output import print_json, print_sheets, say
from quantflow.errors import ExitCode

if TYPE_CHECKING:
    from quantflow.artifacts.watch_record import WatchReport
    from quantflow.calibration.profile.profile import Profile
    from quantflow.config import SourceConfig
    from quantflow.stages.stage import Context

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="Where the profile is written.")
]
Samples = Annotated[
    int | None,
    typer.Option(
        "--samples", min=1, metavar="N", help="Samples drawn; set.deployment_samples without it."
    ),
]
Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="KIND:PATH",
        help="Production samples, such as jsonl:today.jsonl; set.deployment without it.",
    ),
]
NoModel = Annotated[
    bool, typer.Option("--no-model", help="Features of the inputs alone; the model is not run.")
]
ProfilePath = Annotated[
    Path | None,
    typer.Option("--profile", metavar="FILE", help="A profile of production, instead of samples."),
]
WatchOutput = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="The report; watch.json in the run without it."
    ),
]


def profile(
    output: Output = Path("profile.safetensors"),
    config: ConfigPath = DEFAULT_CONFIG,
    overrides: Overrides = None,
    source: Source = None,
    samples: Samples = None,
    no_model: NoModel = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Read production samples once and write a small file of histograms and sketches.

    The file holds no sample and no text, and takes 32 different samples at least: it can leave
    production where the samples cannot. The README says what can still be told from it. A
    configuration with set.profile instead of [set.deployment] builds, matches and judges its
    calibration set by it.

    \b
    Examples:
      quantflow profile --output production.safetensors
      quantflow profile --source jsonl:today.jsonl --samples 1000
      quantflow watch --profile production.safetensors
    """
    from quantflow.calibration.profile.profile_file import save_profile
    from quantflow.cli.output_file import check_output
    from quantflow.cli.session import session
    from quantflow.runtime.workers import ALONE
    from quantflow.stages.pipeline import STAGES, run_stage
    from quantflow.stages.production import profile_to_leave

    options = Options(config, overrides=tuple(overrides or ()), quiet=quiet)
    with session(options, ALONE) as context, context.run.locked():
        check_output(output, context.run.root, [config])
        given = _source(context, source)
        run_stage(context, STAGES[0])
        count = samples or context.config.set.deployment_samples
        made = profile_to_leave(context, given, count, with_model=not no_model)
        save_profile(output, made)
    if json:
        print_json({**_figures(made), "file": str(output)})
        return
    say(
        f"{made.samples} samples, {made.effective:.1f} effective; {len(made.names)} features, "
        f"{len(made.tensors)} tensors; {output.stat().st_size:,} bytes"
    )
    watching = typed(f"quantflow watch --profile {output}", config, options.overrides)
    # Paths in a configuration start from its own directory.
    key = os.path.relpath(output.absolute(), config.absolute().parent)
    say(f"WRITTEN {output} | next: set.profile = {key!r}, or {watching}")


def watch(
    config: ConfigPath = DEFAULT_CONFIG,
    overrides: Overrides = None,
    source: Source = None,
    profile: ProfilePath = None,
    samples: Samples = None,
    output: WatchOutput = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare what production sends now with the calibrated set and ranges.

    Features that drifted, and layers whose activations leave their range, are named. Exits 1 when
    the calibration no longer holds: calibrate anew, with samples of what is sent now.

    \b
    Examples:
      quantflow watch --source jsonl:today.jsonl
      quantflow watch --profile today.safetensors
      quantflow watch --json -q | jq .verdict
    """
    from quantflow.calibration.profile.profile_file import load_profile
    from quantflow.cli.output_file import check_output
    from quantflow.cli.session import session
    from quantflow.config import SourceConfig
    from quantflow.runtime.workers import ALONE
    from quantflow.stages.production import draw_production, require_calibrated
    from quantflow.stages.production import watch as judge

    options = Options(config, overrides=tuple(overrides or ()), quiet=quiet)
    with session(options, ALONE) as context:
        _refuse_both(source, profile)
        written = output or context.run.root / "watch.json"
        check_output(written, context.run.root, [profile or config])
        given = load_profile(profile) if profile is not None else _source(context, source)
        require_calibrated(context)
        where, hygiene = str(profile or source or "set.deployment"), None
        if isinstance(given, SourceConfig):
            count = samples or context.config.set.deployment_samples
            drawn = draw_production(context, given, count)
            given, hygiene = drawn.profile, drawn.hygiene
        report = judge(context, given, where, hygiene)
        report.write(written)
    code = ExitCode.GATE_FAILED if report.verdict == "fail" else ExitCode.OK
    if json:
        print_json(report.to_tree())
    else:
        _show(report, written, options)
    raise typer.Exit(int(code))


def _refuse_both(source: str | None, profile: Path | None) -> None:
    from quantflow.errors import fail

    if source is not None and profile is not None:
        fail("QF103", "give --source or --profile, not both", where="--profile")


def _source(context: Context, text: str | None) -> SourceConfig:
    """The source that ``KIND:PATH`` names, relative to the working directory."""
    from quantflow.errors import fail

    if text is None:
        if context.config.set.deployment is None:
            what = "there is no [set.deployment] to read production samples from"
            fail("QF103", what, where="set.deployment", fix="say --source jsonl:FILE")
        return context.config.set.deployment
    return _parsed(text)


def _parsed(text: str) -> SourceConfig:
    from pydantic import ValidationError

    from quantflow.config import SourceConfig
    from quantflow.errors import fail

    kind, separator, place = text.partition(":")
    key = "function" if kind == "function" else "path"
    try:
        if not (separator and place):
            raise ValueError("it is not KIND:PATH")
        if key == "path" and not place.startswith("package:"):
            place = str(Path(place).absolute())
        return SourceConfig.model_validate({"kind": kind, key: place})
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
    except ValueError as error:
        reason = str(error)
    return fail("QF103", f"cannot read {text!r} as a source: {reason}", where="--source")


def _figures(made: Profile) -> dict[str, object]:
    return {
        "samples": made.samples,
        "effective": made.effective,
        "source": made.source,
        "features": list(made.names),
        "tensors": list(made.tensors),
    }


def _show(report: WatchReport, output: Path, options: Options) -> None:
    from quantflow.report.coverage_sheets import coverage_sheet
    from quantflow.report.drift_sheets import features_sheet

    sheets = [features_sheet(report.drift).first(10)]
    if report.coverage is not None:
        sheets.insert(0, coverage_sheet(report.coverage).first(10))
    print_sheets(sheets)
    for reason in report.reasons:
        say(f"{report.verdict}: {reason}")
    words = {"pass": "HOLDS", "warn": "HOLDS, WITH WARNINGS", "fail": "NO LONGER HOLDS"}
    again = typed("quantflow run", options.config, options.overrides)
    following = (
        f"next: {again} with samples of what is sent now"
        if report.verdict == "fail"
        else f"{report.samples} samples of {report.source}"
    )
    say(f"{words[report.verdict]} {output} | {following}")
