"""`quantflow report`: the HTML page, from what the stages wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quantflow.cli.options import DEFAULT_CONFIG, ConfigPath, Json, RunDirectoryPath
from quantflow.cli.output import print_json, say

Target = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="PATH", help="Default: report.html in the directory."),
]


def report(
    config: ConfigPath = DEFAULT_CONFIG,
    run: RunDirectoryPath = None,
    output: Target = None,
    json: Json = False,
) -> None:
    """Write the HTML report from the results that are there.

    \b
    Examples:
      quantflow report
      quantflow report --run runs/minilm -o minilm.html
    """
    from quantflow.cli.output_file import check_output
    from quantflow.cli.session import finished_run
    from quantflow.report.html import write_report

    directory = finished_run(config, run)
    path = output or directory.root / "report.html"
    check_output(path, directory.root)
    write_report(directory, path)
    if json:
        print_json({"report": str(path)})
    else:
        say(path)
