"""`quantflow lint`: whether atc compiles a file, whoever made it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quantflow.cli.options import Json
from quantflow.cli.output import print_json, print_sheets, say

if TYPE_CHECKING:
    from quantflow.target.dialect import LintFinding
    from quantflow.target.op_table import Cann


class CannVersion(StrEnum):
    """Versions of the op table."""

    CURRENT = "2026"
    OLD = "8.0"


Model = Annotated[Path, typer.Argument(metavar="FILE.onnx", help="The model.")]
CannOption = Annotated[
    CannVersion, typer.Option("--cann", help="Whose op table and opset ceiling hold.")
]
Chip = Annotated[
    str, typer.Option("--chip", metavar="NAME", help="What it is for, such as Ascend310P3.")
]
DtypeFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--dtypes",
        metavar="FILE",
        help="A keep_dtype or customize_dtypes file to check against the model; may be repeated.",
    ),
]
Rows = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Rows of the table.")]


def lint(
    model: Model,
    cann: CannOption = CannVersion.CURRENT,
    chip: Chip = "",
    dtypes: DtypeFiles = None,
    rows: Rows = 100,
    json: Json = False,
) -> None:
    """Check an ONNX file against what atc compiles, before atc does.

    Any file will do: a deploy model of quantflow's or of another tool, or a float model. Weights
    stay on disk but for dequantization scales. Exits 1 when there are errors, 2 when the file
    cannot be read.

    \b
    Examples:
      quantflow lint run/40_onnx/deploy_batch1.onnx
      quantflow lint model_int8.onnx --cann 8.0 --chip Ascend310P3
      quantflow lint deploy.onnx --dtypes keep_dtype.txt
      quantflow lint model.onnx --json | jq .counts
    """
    from quantflow.errors import ExitCode
    from quantflow.report.lint_sheet import counts, counts_text, lint_sheet, worst_first

    findings = lint_file(model, cann.value, chip, tuple(dtypes or ()))
    number = counts(findings)
    code = ExitCode.GATE_FAILED if number["error"] else ExitCode.OK
    if json:
        from dataclasses import asdict

        head = {"file": str(model), "cann": cann.value, "chip": chip, "counts": number}
        print_json({**head, "findings": [asdict(x) for x in worst_first(findings)]})
    else:
        print_sheets([lint_sheet(model.name, findings).first(rows)])
        word = "FAILED" if number["error"] else "CLEAN" if not number["warning"] else "PASSED"
        say(f"{word} {model.name} | {counts_text(findings)} | CANN {cann.value}")
    raise typer.Exit(code)


def lint_file(
    path: Path, cann: Cann, chip: str = "", dtypes: tuple[Path, ...] = ()
) -> list[LintFinding]:
    """Everything that is to be said about a file.

    Args:
        path: of the ONNX file.
        cann: whose rules hold.
        chip: what it is for, or empty.
        dtypes: files that name nodes of it for atc.

    Raises:
        QuantflowError: QF201 or QF202 when it cannot be read, QF110 for an unknown chip, QF104 for
            a file of `dtypes` that is not there.
    """
    from quantflow.graph.model_io import load_model
    from quantflow.graph.proto_io import load_proto
    from quantflow.target.chip_rules import chip_findings
    from quantflow.target.chips import check_chip
    from quantflow.target.dtype_files import dtype_findings
    from quantflow.target.lint import lint as lint_model
    from quantflow.target.lint_notes import lint_notes
    from quantflow.target.proto_rules import proto_findings

    if chip:
        check_chip(chip)
    if found := list(proto_findings(load_proto(path))):
        return found
    model = load_model(path)
    named = [x for file in dtypes for x in dtype_findings(model, _text(file), file.name)]
    return [*lint_model(model, cann), *chip_findings(model, chip), *named, *lint_notes(model)]


def _text(path: Path) -> str:
    from quantflow.errors import fail

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is no text"
        fail("QF104", f"cannot be read: {cause}", where=str(path), fix="check --dtypes")
