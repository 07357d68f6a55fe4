"""`quantflow show`: what the stages found, as short tables, worst first."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantflow.cli.options import DEFAULT_CONFIG, ConfigPath, Json, RunDirectoryPath
from quantflow.cli.output import print_json, print_sheets, say

if TYPE_CHECKING:
    from quantflow.artifacts.run_directory import RunDirectory
    from quantflow.report.artifacts import Artifacts
    from quantflow.report.sheet import Sheet
    from quantflow.report.tensor_story import TensorStory


class What(StrEnum):
    """What can be shown."""

    LAYERS = "layers"
    GROUPS = "groups"
    SET = "set"
    DRIFT = "drift"
    HYGIENE = "hygiene"
    RANGES = "ranges"
    CLIPPING = "clipping"
    COVERAGE = "coverage"
    FP16 = "fp16"
    OPTIMIZE = "optimize"
    SCORES = "scores"
    SIDES = "sides"
    CURVE = "curve"
    POLICIES = "policies"
    PLAN = "plan"
    EXPORT = "export"
    FACTORS = "factors"
    PARITY = "parity"
    DIAGNOSIS = "diagnosis"
    SUMMARY = "summary"
    TIMINGS = "timings"


VIEW_NAMES = [what.value for what in What]


def _what(text: str) -> What | Path:
    """A view, or the path of an .om file."""
    if text in VIEW_NAMES:
        return What(text)
    if text.endswith(".om"):
        return Path(text)
    known = ", ".join(map(repr, VIEW_NAMES))
    raise typer.BadParameter(f"{text!r} is not one of {known}, and no path that ends in .om.")


Shown = Annotated[
    Any,
    typer.Argument(
        parser=_what,
        metavar="VIEW|FILE.om",
        help=f"A view of the run ({', '.join(VIEW_NAMES)}), or an .om file.",
    ),
]
LayerName = Annotated[
    str | None,
    typer.Option("--layer", metavar="NAME", help="Only this layer, group or tensor."),
]
Rows = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Rows of a table.")]


def show(
    what: Shown,
    layer: LayerName = None,
    rows: Rows = 20,
    config: ConfigPath = DEFAULT_CONFIG,
    run: RunDirectoryPath = None,
    json: Json = False,
) -> None:
    """Show results of the stages that have run, worst first.

    `ranges --layer NAME` tells all there is to know about the range of that layer's input. Of an
    .om file, wherever it comes from, header, partitions, inputs, outputs and operators are shown;
    that needs neither a run nor a configuration.

    \b
    Examples:
      quantflow show layers
      quantflow show ranges --layer encoder.layer.0.output.dense
      quantflow show coverage --limit 5
      quantflow show scores
      quantflow show plan --json
      quantflow show run/50_om/batch1.om
    """
    from quantflow.cli.session import finished_run

    if isinstance(what, Path):
        _show_om(what, layer, rows, as_json=json)
        return
    directory = finished_run(config, run)
    if what is What.TIMINGS:
        _show_timings(directory, as_json=json)
    else:
        _show_view(directory, what.value, layer, rows, as_json=json)


def _show_om(path: Path, layer: str | None, rows: int, *, as_json: bool) -> None:
    from quantflow.ascend.om_file import describe_om
    from quantflow.errors import fail
    from quantflow.report.om_sheets import om_sheets

    if layer:
        fail("QF103", "an .om file is not told layer by layer", where="--layer", fix="leave it out")
    if not path.is_file():
        fail("QF104", "there is no such file", where=str(path), fix="check the path")
    described = describe_om(path)
    if as_json:
        print_json(described.to_tree())
        return
    header, *others = om_sheets(described)
    print_sheets([header, *(_first(sheet, rows) for sheet in others)])
    if described.not_read:
        say(f"not everything was read: {described.not_read}")
    command = described.model and described.model.attributes.get("atc_cmdline")
    if command is not None:
        say(f"atc_cmdline: {command}")


def _show_timings(run: RunDirectory, *, as_json: bool) -> None:
    from quantflow.artifacts.timings import read_timings
    from quantflow.cli.views import timings_sheet

    times = read_timings(run.root)
    if as_json:
        print_json(times)
    else:
        print_sheets([timings_sheet(times)])


def _show_view(
    run: RunDirectory, what: str, layer: str | None, rows: int, *, as_json: bool
) -> None:
    from dataclasses import replace

    from quantflow.cli.names import filter_json, filter_sheet, related_names
    from quantflow.cli.views import VIEWS
    from quantflow.errors import fail
    from quantflow.report.artifacts import read_artifacts
    from quantflow.report.story_sheets import story_sheets
    from quantflow.stages.summary import summarize

    found = read_artifacts(run)
    view, found = VIEWS[what], replace(found, summary=summarize(found))
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
    told = _stories(found, names) if what == "ranges" and names is not None else []
    if as_json:
        trees = {name: x.to_tree() for name, x in records.items()}
        tree = trees if names is None else filter_json(trees, names)
        print_json({**tree, "tensors": [story.tree() for story in told]} if told else tree)
        return
    sheets = view.sheets(found)
    if names is not None:
        sheets = [filter_sheet(sheet, names) for sheet in sheets]
    print_sheets(sheet if view.whole else _first(sheet, rows) for sheet in sheets)
    previews = {x.id: x.preview for record in found.sets for x in record.samples}
    print_sheets(sheet for story in told for sheet in story_sheets(story, previews))
    for sheet in sheets:
        if not sheet.rows:
            say(f"{sheet.title}: none. {sheet.note}".rstrip())


def _first(sheet: Sheet, rows: int) -> Sheet:
    return sheet.first(rows, f"--limit {len(sheet.rows)} shows all")


def _stories(found: Artifacts, names: frozenset[str]) -> list[TensorStory]:
    from quantflow.cli.names import tensors_of
    from quantflow.report.tensor_story import stories

    return stories(found, tensors_of(found.model, names)) if found.model else []
