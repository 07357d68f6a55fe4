"""`quantflow doctor`: what is missing, before long work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from quantflow.cli.options import DEFAULT_CONFIG, ConfigPath, Json, Overrides
from quantflow.cli.output import print_json, say

if TYPE_CHECKING:
    from quantflow.cli.check import Check
    from quantflow.config import LoadedConfig


def doctor(
    config: ConfigPath = DEFAULT_CONFIG, overrides: Overrides = None, json: Json = False
) -> None:
    """Check the machine, the configuration and the data.

    Reads the first records of every source as a run would, and calls your functions for it, but
    not the model's factory. Changes nothing. A missing atc is a warning: everything but the
    conversion works without it. Exits 3 when the environment is broken, 2 when the configuration
    is.

    \b
    Examples:
      quantflow doctor
      quantflow doctor -c minilm/quantflow.toml --json
    """
    from quantflow.cli.checks_project import read_configuration

    required = config != DEFAULT_CONFIG
    loaded, checks = read_configuration(config, overrides or (), required=required)
    checks = [*_environment(loaded), *checks, *(_project(loaded) if loaded else ())]
    code = exit_status(checks)
    if json:
        from dataclasses import asdict

        print_json({"exit_code": code, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            say(check)
        say(_last_line(checks, config))
    raise typer.Exit(code)


def exit_status(checks: list[Check]) -> int:
    """3 when the environment is broken, else 2 when the configuration is, else 0."""
    from quantflow.errors import ExitCode

    broken = {check.area for check in checks if check.level == "error"}
    if "environment" in broken:
        return int(ExitCode.ENVIRONMENT)
    return int(ExitCode.USAGE if broken else ExitCode.OK)


def _environment(loaded: LoadedConfig | None) -> Iterator[Check]:
    from quantflow.cli import checks_environment as checks
    from quantflow.config import RuntimeConfig

    yield checks.python_check()
    yield from checks.package_checks()
    yield checks.torch_check()
    yield checks.provider_check(loaded.config.runtime if loaded else RuntimeConfig())
    yield checks.arithmetic_check()
    yield from checks.atc_checks(loaded)
    yield checks.om_check()
    yield checks.disk_check(loaded.run_directory if loaded else Path.cwd())


def _project(loaded: LoadedConfig) -> Iterator[Check]:
    from quantflow.artifacts.run_directory import RunDirectory
    from quantflow.cli import checks_project as checks
    from quantflow.cli.checks_data import data_checks

    yield from checks.chip_checks(loaded.config)
    yield from checks.option_checks(loaded)
    functions = list(checks.function_checks(loaded))
    yield from functions
    # A function that is not there is one problem, though reading its data finds it again.
    said = {check.value for check in functions}
    yield from (check for check in data_checks(loaded) if check.value not in said)
    yield from checks.sample_checks(RunDirectory(loaded.run_directory))


def _last_line(checks: list[Check], config: Path) -> str:
    errors = sum(check.level == "error" for check in checks)
    warnings = sum(check.level == "warn" for check in checks)
    if errors:
        return f"{errors} to mend, {warnings} warnings"
    try_out = f"quantflow run --config {config} --limit 8 --set run.directory=try"
    return f"ready, {warnings} warnings | next: {try_out}"
