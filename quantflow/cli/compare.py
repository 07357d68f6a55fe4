"""`quantflow compare`: the stage without arguments, with two of them any two sides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quantflow.cli.options import (
    DEFAULT_CONFIG,
    ConfigPath,
    DryRun,
    Force,
    Json,
    Options,
    Overrides,
    Quiet,
    Verbose,
)
from quantflow.cli.output import print_json, print_sheets, say
from quantflow.cli.stage_commands import stage_command

if TYPE_CHECKING:
    from quantflow.artifacts.side_by_side import SideBySide
    from quantflow.stages.side_by_side import Asked

SideName = Annotated[str | None, typer.Argument(metavar="A", help="The reference.")]
OtherName = Annotated[str | None, typer.Argument(metavar="B", help="What is compared with it.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, metavar="N", help="At most N samples; of the stage, a set."),
]
Samples = Annotated[
    Path | None,
    typer.Option(
        "--samples",
        metavar="FILE.npz",
        help="One array per input, samples along the first axis, or samples_*.npz of 50_om; the "
        "evaluation set without it.",
    ),
]
Repeat = Annotated[
    int | None,
    typer.Option(
        "--repeat", min=1, metavar="N", help="Runs of the first batch, which show jitter; 2."
    ),
]
LayerCosine = Annotated[
    float | None,
    typer.Option("--layer-cosine", min=-1, max=1, help="Least cosine of a layer; it decides then."),
]
OutputCosine = Annotated[
    float | None,
    typer.Option("--output-cosine", min=-1, max=1, help="Least mean cosine of an output."),
]
OutputError = Annotated[
    float | None,
    typer.Option("--output-error", min=0, help="Greatest error of an output, over its absmax."),
]
Rows = Annotated[
    int | None, typer.Option("--rows", min=1, metavar="N", help="Rows of the table; 20.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the record is written.")
]


def compare(
    reference: SideName = None,
    other: OtherName = None,
    config: ConfigPath = DEFAULT_CONFIG,
    overrides: Overrides = None,
    limit: Limit = None,
    samples: Samples = None,
    repeat: Repeat = None,
    layer_cosine: LayerCosine = None,
    output_cosine: OutputCosine = None,
    output_error: OutputError = None,
    rows: Rows = None,
    output: Output = None,
    force: Force = False,
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """The command; its help is that of the stage."""
    given = {
        "--samples": samples, "--repeat": repeat, "--layer-cosine": layer_cosine,
        "--output-cosine": output_cosine, "--output-error": output_error, "--rows": rows,
        "--output": output,
    }  # fmt: skip
    if reference is None:
        _refuse([name for name, value in given.items() if value is not None], "two sides")
        stage_command("45_compare")(config, overrides, limit, force, dry_run, json, quiet, verbose)
    if other is None:
        _refuse(["one side alone"], "two sides: quantflow compare A B")
    _refuse([name for name, on in (("--force", force), ("--dry-run", dry_run)) if on], "no sides")
    from quantflow.stages.side_by_side import Asked

    options = Options(config, overrides=tuple(overrides or ()), json=json, quiet=quiet)
    asked = Asked(samples, limit, repeat or 2, layer_cosine, output_cosine, output_error)
    found = _compared(str(reference), str(other), asked, options, output)
    _show(found, rows or 20, output, as_json=json)
    raise typer.Exit(int(found.verdict == "fail"))


def _refuse(options: list[str], where: str) -> None:
    from quantflow.errors import fail

    if options:
        what = f"{', '.join(options)}: this goes with {where}"
        fail("QF109", what, where="quantflow compare", fix="see `quantflow compare --help`")


def _compared(
    reference: str, other: str, asked: Asked, options: Options, output: Path | None
) -> SideBySide:
    from quantflow.cli.progress import drawing
    from quantflow.cli.session import session
    from quantflow.runtime.workers import ALONE
    from quantflow.stages.side_by_side import (
        are_dumps,
        check_side,
        compare_directories,
        compare_pair,
        graph_order,
    )

    for text in (reference, other):
        check_side(text)
    read = [Path(reference), Path(other), options.config, *filter(None, [asked.samples])]
    if are_dumps(reference, other) and not _configured(options.config):
        _refuse(["--set"] if options.overrides else [], "a configuration")
        _refuse(["--samples"] if asked.samples else [], "a model among the sides")
        _check(output, output.parent if output else Path(), read)
        with drawing(quiet=options.quiet) as progress:
            return _written(compare_directories(reference, other, asked, progress), output)
    with session(options, ALONE) as context:
        _check(output, context.run.root, read)
        if are_dumps(reference, other):
            graph = graph_order(context)
            found = compare_directories(reference, other, asked, context.progress, graph)
            return _written(found, output)
        return _written(compare_pair(context, reference, other, asked), output)


def _configured(config: Path) -> bool:
    """Whether a configuration is there; one that is asked for has to be."""
    return config != DEFAULT_CONFIG or config.is_file()


def _check(output: Path | None, run: Path, read: list[Path]) -> None:
    from quantflow.cli.output_file import check_output

    if output is not None:
        check_output(output, run, read)


def _written(found: SideBySide, output: Path | None) -> SideBySide:
    if output is not None:
        found.write(output)
    return found


def _show(found: SideBySide, rows: int, output: Path | None, *, as_json: bool) -> None:
    from quantflow.report.side_by_side_sheets import side_by_side_sheets

    if as_json:
        print_json(found.to_tree())
        return
    print_sheets(side_by_side_sheets(found, rows))
    for note in found.notes:
        say(f"note: {note}")
    for reason in found.reasons:
        say(f"{found.verdict}: {reason}")
    word = "PASSED" if found.verdict == "pass" else "FAILED"
    first = found.first_beyond
    head = "first beyond" if first is None or first.ordered else "order unknown; worst"
    start = f" | {head}: {first.node or first.tensor}" if first else ""
    written = f" | {output}" if output else ""
    say(f"{word} {found.other.name} against {found.reference.name}{start}{written}")
