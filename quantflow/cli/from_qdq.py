"""`quantflow from-qdq`: a deploy model from a model that another tool quantized."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quantflow.cli.options import Json, Quiet
from quantflow.cli.output import print_json, print_sheets, say
from quantflow.errors import ExitCode, Problem, QuantflowError

if TYPE_CHECKING:
    from quantflow.config import LoadedConfig
    from quantflow.stages.from_qdq import Converted

Source = Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="The quantized model.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Where everything is written.")
]
Buckets = Annotated[
    list[str] | None,
    typer.Option(
        "--bucket",
        metavar="NAME=SIZE,...",
        help="A size for every free dimension, such as batch=1,length=128; may be repeated.",
    ),
]
Chip = Annotated[str, typer.Option("--chip", metavar="NAME", help="What atc compiles for.")]
CannVersion = Annotated[str, typer.Option("--cann", metavar="VERSION", help="2026 or 8.0.")]
Samples = Annotated[
    Path | None,
    typer.Option(
        "--samples",
        metavar="FILE.npz",
        help="One array per input, samples along the first axis; random inputs without it.",
    ),
]


def from_qdq(
    source: Source,
    output: Output,
    buckets: Buckets = None,
    chip: Chip = "Ascend310P3",
    cann: CannVersion = "2026",
    samples: Samples = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn a model quantized elsewhere (QDQ) into one that atc compiles, scales and integers kept.

    atc has no parser for QuantizeLinear and its kin, and stops with E19010 or E16002. This needs no
    data and no configuration; layers that Ascend cannot compute in INT8 as the file has them stay
    float, each with the reason. Exits 3 when there is no atc: 50_om then converts elsewhere.

    \b
    Examples:
      quantflow from-qdq model_int8.onnx --output out
      quantflow from-qdq bert_int8.onnx -o out --bucket batch=1,length=128 --samples texts.npz
    """
    from quantflow.cli.progress import drawing
    from quantflow.report.from_qdq_sheets import from_qdq_sheets
    from quantflow.stages.from_qdq import from_qdq as convert

    try:
        loaded = _configured(source, output, buckets or (), chip, cann)
        with drawing(quiet=quiet) as progress:
            done = convert(loaded, output, samples, progress)
    except QuantflowError as error:
        problems = [_as_option(problem, buckets or []) for problem in error.problems]
        raise QuantflowError(problems) from error
    code = _exit_code(done)
    if json:
        records = {"from_qdq": done.record, "export": done.export, "om": done.om}
        print_json({name: record.to_tree() for name, record in records.items()})
    else:
        print_sheets(from_qdq_sheets(done.record))
        _conclude(done, output, code)
    raise typer.Exit(int(code))


def _as_option(problem: Problem, buckets: list[str]) -> Problem:
    """The same problem where the command line has it, not a configuration."""
    if buckets and (found := re.match(r"target\.buckets\W(\d+)", problem.where)):
        return replace(problem, where=f"--bucket {buckets[int(found[1])]}")
    options = {"model.onnx": "MODEL.onnx", "target.buckets": "--bucket", "target.": "--"}
    for key, option in options.items():
        if problem.where.startswith(key):
            return replace(problem, where=option + problem.where.removeprefix(key))
    return problem


def _configured(
    source: Path, output: Path, buckets: list[str] | tuple[()], chip: str, cann: str
) -> LoadedConfig:
    """The options as a configuration, which checks them as it checks a file's."""
    from quantflow.config import check_config

    target: dict[str, object] = {"chip": chip, "cann": cann}
    if buckets:
        target["buckets"] = [_bucket(text) for text in buckets]
    tree: dict[str, object] = {
        "run": {"directory": str(output)},
        "model": {"onnx": str(source)},
        "target": target,
        # A configuration names a set; nothing is read of it here.
        "set": {"candidates": {"kind": "function", "function": "none:none"}},
    }
    return check_config(tree, base=Path.cwd())


def _bucket(text: str) -> dict[str, int]:
    """The sizes that ``batch=1,length=128`` names."""
    from quantflow.errors import fail

    sizes = dict[str, int]()
    for part in text.split(","):
        name, separator, size = (x.strip() for x in part.partition("="))
        if not (name and separator and size.isdecimal()):
            what = f"cannot read {part!r} as a size"
            fail("QF109", what, where=f"--bucket {text}", fix="--bucket batch=1,length=128")
        if name in sizes:
            what, fix = f"{name!r} is given twice", "repeat --bucket for a second bucket"
            fail("QF109", what, where=f"--bucket {text}", fix=fix)
        sizes[name] = int(size)
    return sizes


def _exit_code(done: Converted) -> ExitCode:
    from quantflow.report.gates import OM_EXIT_CODES

    if done.record.verdict == "fail":
        return ExitCode.GATE_FAILED
    return OM_EXIT_CODES[done.om.status]


def _conclude(done: Converted, output: Path, code: ExitCode) -> None:
    record = done.record
    for note in (*record.notes, *record.warnings):
        say(f"note: {note}")
    for reason in record.reasons:
        say(f"{record.verdict}: {reason}")
    before = ", ".join(f"{count} {kind}" for kind, count in record.refused_before.items())
    say(f"atc refuses in the file: {before}; in the deploy model: nothing that the linter knows")
    layers = record.int8_layers + len(record.float_layers)
    share = f"{record.int8_layers} of {layers} layers INT8, {record.int8_mac_fraction:.1%} of MACs"
    words = {
        ExitCode.OK: "CONVERTED",
        ExitCode.GATE_FAILED: "FAILED",
        ExitCode.ENVIRONMENT: "NOT CONVERTED",
        ExitCode.USAGE: "CONVERSION REFUSED",
        ExitCode.ATC_FAILED: "CONVERSION FAILED",
    }
    following = {
        ExitCode.OK: f"{output}/50_om holds the .om files",
        ExitCode.GATE_FAILED: f"look at {output}/from_qdq.json",
        ExitCode.ENVIRONMENT: f"copy {output}/50_om to a machine with CANN, run convert.py there",
        ExitCode.USAGE: f"look at {output}/50_om/om.json",
        ExitCode.ATC_FAILED: f"look at {output}/50_om/logs",
    }
    say(f"{words[code]} {output} | {share} | next: {following[code]}")
