"""Running `quantflow compare A B`: here, or with a runner that is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from quantflow.cli.options import DEFAULT_CONFIG, Options

if TYPE_CHECKING:
    from quantflow.artifacts.side_by_side import SideBySide
    from quantflow.stages.side_by_side import Asked
    from quantflow.stages.stage import Context

RUNNERS = ("onnxruntime", "om", "torch")
"""What may run a side."""


_DEVICES = {"onnxruntime": "", "om": "([0-9]{1,4})?", "torch": "(cpu|(cuda|npu)(:[0-9]{1,4})?)?"}
"""Patterns of their devices."""

_DEVICES_SHOWN = {
    "onnxruntime": "it takes no device",
    "om": "give om:N, the number of an NPU",
    "torch": "give torch:cpu, torch:cuda:N or torch:npu:N",
}


def refuse(options: list[str], where: str, fix: str = "see `quantflow compare --help`") -> None:
    """Raise QF109 where options are given that go with something else."""
    from quantflow.errors import fail

    if options:
        what = f"{', '.join(options)}: this goes with {where}"
        fail("QF109", what, where="quantflow compare", fix=fix)


def runner_of(text: str) -> tuple[str, str]:
    """Name and device of a runner."""
    from quantflow.errors import did_you_mean, fail
    from quantflow.printable import shown

    name, colon, device = text.partition(":")
    if name not in RUNNERS:
        fix = did_you_mean(name, RUNNERS)
        fail("QF107", f"there is no runner {shown(name)}", where="--runner", fix=fix)
    if not re.fullmatch(_DEVICES[name], device) or (colon and not device):
        what = f"{shown(text)} names no device of {name}"
        fail("QF109", what, where="--runner", fix=_DEVICES_SHOWN[name])
    return name, device


def compared_here(
    texts: list[str], asked: Asked, options: Options, output: Path | None
) -> SideBySide:
    """Compare two precisions, ONNX files or dumps, which need no device."""
    from quantflow.cli.progress import drawing
    from quantflow.cli.session import session
    from quantflow.runtime.workers import ALONE
    from quantflow.stages.runner_sides import is_om
    from quantflow.stages.side_by_side import (
        are_dumps,
        check_side,
        compare_directories,
        compare_pair,
        graph_order,
    )

    for text in texts:
        check_side(text)
    refuse([text for text in texts if is_om(text)], "--runner om, on a machine with an NPU")
    reference, other = texts
    read = _read(texts, asked, options)
    if are_dumps(reference, other) and not _configured(options.config):
        refuse(["--set"] if options.overrides else [], "a configuration")
        refuse(["--samples"] if asked.samples else [], "a model among the sides")
        _check(output, output.parent if output else Path(), read)
        with drawing(quiet=options.quiet) as progress:
            return _written(compare_directories(reference, other, asked, progress), output)
    with session(options, ALONE) as context:
        context = _as_made(context, asked.limit)
        _check(output, context.run.root, read)
        if are_dumps(reference, other):
            graph = graph_order(context)
            found = compare_directories(reference, other, asked, context.progress, graph)
            return _written(found, output)
        return _written(compare_pair(context, reference, other, asked), output)


def compared_elsewhere(
    texts: list[str], asked: Asked, options: Options, output: Path | None, name: str, device: str
) -> SideBySide:
    """Compare with .om files on an NPU, or with a torch module on a device."""
    from quantflow.cli.session import session
    from quantflow.runtime.workers import ALONE
    from quantflow.stages.runner_sides import compare_om, compare_torch, is_om
    from quantflow.stages.side_by_side import check_side

    for text in texts:
        check_side(text)
    if name != "om":
        refuse([text for text in texts if is_om(text)], "--runner om, on a machine with an NPU")
    with session(options, ALONE) as context:
        context = _as_made(context, asked.limit)
        _check(output, context.run.root, _read(texts, asked, options))
        if name == "om":
            return _written(compare_om(context, texts, asked, int(device or 0)), output)
        return _written(compare_torch(context, texts, asked, device or "cpu"), output)


def _as_made(context: Context, limit: int | None) -> Context:
    """The context with ``--limit`` as the stages take it, where the run's sets were made with it.

    Where they were not, it is of this comparison alone, and the run must be that of all samples.
    """
    from dataclasses import replace

    from quantflow.cli.session import limited
    from quantflow.stages.stage import section_digest
    from quantflow.stages.stage_1_set import STAGE as SET

    if limit is None:
        return context
    loaded, manifest = limited(context.loaded, limit), context.run.manifest(SET.folder)
    made_with = manifest.inputs.get("set") if manifest is not None else None
    same = made_with == section_digest(loaded.config.set)
    return replace(context, loaded=loaded) if same else context


def _read(texts: list[str], asked: Asked, options: Options) -> list[Path]:
    """What is read, and must not be written over."""
    return [*map(Path, texts), options.config, *filter(None, [asked.samples])]


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
