"""`quantflow compare`: the stage without arguments, with two of them any two sides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quantflow.cli.compare_sides import compared_elsewhere, compared_here, refuse, runner_of
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

SideName = Annotated[str | None, typer.Argument(metavar="A", help="The reference.")]
OtherName = Annotated[str | None, typer.Argument(metavar="B", help="What is compared with it.")]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        min=1,
        metavar="N",
        help="At most N samples; of the stage, a set. That of a run made with one goes, too.",
    ),
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
Runner = Annotated[
    str,
    typer.Option(
        "--runner",
        metavar="NAME[:DEVICE]",
        help="onnxruntime; om[:N] runs .om files on NPU N, without A and B the run's own int8 "
        "against its fp16; torch[:DEVICE] runs the factory's module as fp32.",
    ),
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
    runner: Runner = "onnxruntime",
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
    name, device = runner_of(runner)
    if reference is None and name != "om":
        two = f"quantflow compare fp32 int8 --runner {runner}"
        refuse(["--runner"] if name != "onnxruntime" else [], "two sides", two)
        refuse([name for name, value in given.items() if value is not None], "two sides")
        stage_command("45_compare")(config, overrides, limit, force, dry_run, json, quiet, verbose)
    texts = [text for text in (reference, other) if text is not None]
    if len(texts) == 1:
        refuse(["one side alone"], "two sides: quantflow compare A B")
    refuse([name for name, on in (("--force", force), ("--dry-run", dry_run)) if on], "no sides")
    from quantflow.stages.side_by_side import Asked

    options = Options(config, overrides=tuple(overrides or ()), json=json, quiet=quiet)
    asked = Asked(samples, limit, repeat or 2, layer_cosine, output_cosine, output_error)
    if name == "onnxruntime":
        found = compared_here(texts, asked, options, output)
    else:
        found = compared_elsewhere(texts, asked, options, output, name, device)
    _show(found, rows or 20, output, as_json=json)
    raise typer.Exit(int(found.verdict == "fail"))


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
