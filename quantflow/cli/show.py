"""`quantflow show`: what the stages found, as short tables, worst first."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from quantflow.cli.options import DEFAULT_CONFIG, ConfigPath, Json, RunDirectoryPath
from quantflow.cli.output import print_json, print_sheets

if TYPE_CHECKING:
    from quantflow.artifacts.run_directory import RunDirectory


class What(StrEnum):
    """What can be shown."""

    LAYERS = "layers"
    GROUPS = "groups"
    SET = "set"
    DRIFT = "drift"
    RANGES = "ranges"
    CLIPPING = "clipping"
    COVERAGE = "coverage"
    FP16 = "fp16"
    SCORES = "scores"
    CURVE = "curve"
    POLICIES = "policies"
    PLAN = "plan"
    FACTORS = "factors"
    PARITY = "parity"
    SUMMARY = "summary"
    TIMINGS = "timings"


LayerName = Annotated[
    str | None,
    typer.Option("--layer", metavar="NAME", help="Only this layer, group or tensor."),
]
Rows = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Rows of a table.")]


def show(
    what: Annotated[What, typer.Argument(help="What to show.")],
    layer: LayerName = None,
    rows: Rows = 20,
    config: ConfigPath = DEFAULT_CONFIG,
    run: RunDirectoryPath = None,
    json: Json = False,
) -> None:
    """Show results of the stages that have run, worst first.

    `ranges --layer NAME` shows every candidate range of that layer's input on both splits.

    \b
    Examples:
      quantflow show layers
      quantflow show ranges --layer encoder.layer.0.output.dense
      quantflow show coverage --limit 5
      quantflow show scores
      quantflow show plan --json
    """
    from quantflow.cli.session import finished_run

    directory = finished_run(config, run)
    if what is What.TIMINGS:
        _show_timings(directory, as_json=json)
    else:
        _show_view(directory, what.value, layer, rows, as_json=json)


def _show_timings(run: RunDirectory, *, as_json: bool) -> None:
    from quantflow.cli.views import timings, timings_sheet

    times = timings(run)
    if as_json:
        print_json(times)
    else:
        print_sheets([timings_sheet(times)])


def _show_view(
    run: RunDirectory, what: str, layer: str | None, rows: int, *, as_json: bool
) -> None:
    from quantflow.cli.names import filter_json, filter_sheet, related_names, tensors_of
    from quantflow.cli.views import VIEWS
    from quantflow.errors import fail
    from quantflow.report.artifacts import read_artifacts
    from quantflow.report.range_sheets import candidates_sheet

    view, found = VIEWS[what], read_artifacts(run)
    records = view.records(found)
    if not records:
        fail(
            "QF404",
            f"no current result for {what}",
            where=str(run.root),
            fix=f"run `{view.command}`",
        )
    if layer and not view.by_layer:
        fail("QF103", f"{what} is not told layer by layer", where="--layer", fix="leave it out")
    names = related_names(found.model, layer) if layer and found.model else None
    if as_json:
        trees = {name: x.model_dump(mode="json") for name, x in records.items()}
        print_json(trees if names is None else filter_json(trees, names))
        return
    sheets = view.sheets(found)
    if names is not None and found.model is not None:
        sheets = [filter_sheet(sheet, names) for sheet in sheets]
        if what == "ranges" and found.clipping is not None:
            tensors = tensors_of(found.model, names)
            sheets += [candidates_sheet(found.clipping, tensor) for tensor in tensors]
    print_sheets(sheet.first(rows) for sheet in sheets)
    for sheet in sheets:
        if not sheet.rows:
            print(f"{sheet.title}: none. {sheet.note}".rstrip())
