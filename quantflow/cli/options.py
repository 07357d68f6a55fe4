"""The options that commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_CONFIG = Path("quantflow.toml")

ConfigPath = Annotated[
    Path, typer.Option("--config", "-c", metavar="PATH", help="The configuration file.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key, such as --set quantization.estimator=kl; may be repeated.",
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        min=1,
        metavar="N",
        help="Calibrate, hold out and evaluate at most N samples each, for a quick try.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Do the work even when nothing it reads has changed.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say which stages would run and why; do nothing.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say why each stage runs; tracebacks in full.")
]
RunDirectoryPath = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="A run directory; the configuration is not read."),
]


@dataclass(frozen=True, slots=True)
class Options:
    """The shared options of the commands that do work, as given."""

    config: Path
    overrides: tuple[str, ...] = ()
    limit: int | None = None
    force: bool = False
    dry_run: bool = False
    json: bool = False
    quiet: bool = False
    verbose: bool = False
