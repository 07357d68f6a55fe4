"""`quantflow export-om`: the stage, and taking back what was converted on another machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

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
from quantflow.cli.stage_commands import run_one
from quantflow.cli.team import with_workers

Collect = Annotated[
    Path | None,
    typer.Option(
        "--collect",
        metavar="DIR",
        help="Take back what convert.py made in DIR, on another machine; all is verified again.",
    ),
]


def export_om(
    config: ConfigPath = DEFAULT_CONFIG,
    collect: Collect = None,
    overrides: Overrides = None,
    limit: Limit = None,
    force: Force = False,
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    if collect is not None and dry_run:
        from quantflow.errors import fail

        fail("QF109", "--dry-run does not go with --collect", where="quantflow export-om")
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
    work = partial(run_one, "50_om", options, collect=collect)
    raise typer.Exit(with_workers(work, options))
