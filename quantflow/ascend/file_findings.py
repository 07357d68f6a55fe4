"""Checks of the files that options of atc name: whether they can be read, and what they name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import onnx_ir as ir

from quantflow.artifacts.om_record import Finding
from quantflow.ascend.mixlist_file import mixlist_findings, mixlist_types
from quantflow.ascend.option_files import UnreadableFile, option_files, read_option_file
from quantflow.ascend.precision_mode_file import (
    BY_NODE_NAME,
    precision_mode_findings,
    precision_modes,
)
from quantflow.config import LoadedConfig
from quantflow.target.dtype_files import BY_TYPE, unmatched_lines

_NAMES_NODES: Final = ("customize_dtypes", "keep_dtype", "modify_mixlist", "op_precision_mode")
_MOST_NAMED: Final = 20
"""Findings of one kind about one file; a file for another model has thousands."""


def file_findings(loaded: LoadedConfig, *, int8: bool) -> Iterator[Finding]:
    """What is wrong with the files themselves, for any model.

    Args:
        loaded: the configuration.
        int8: whether the models hold INT8 layers.
    """
    for name, path in option_files(loaded).items():
        try:
            text = read_option_file(path)
        except UnreadableFile as error:
            what = f"the file cannot be read: {error} (E10001)"
            where, fix = f"atc.options.{name}", f"check {loaded.config.atc.options[name]}"
            yield Finding(level="error", what=what, where=where, fix=fix)
            continue
        if name == "op_precision_mode":
            yield from precision_mode_findings(text, int8=int8)
        elif name == "modify_mixlist":
            yield from mixlist_findings(text)


def unmatched_findings(loaded: LoadedConfig, bucket: str, model: ir.Model) -> Iterator[Finding]:
    """What these files name and the model has not, as far as the parser's names are known.

    Args:
        loaded: the configuration.
        bucket: name of the model's bucket.
        model: the deploy model.
    """
    files = option_files(loaded)
    for option in _NAMES_NODES:
        if option not in files:
            continue
        for entry in _unmatched(option, files[option], model)[:_MOST_NAMED]:
            what = f"{entry!r} matches no node after atc's parser, as far as its names are known"
            where = f"{bucket}: atc.options.{option}"
            fix = "name the node as atc's parser does"
            yield Finding(level="warning", what=what, where=where, fix=fix)


def _unmatched(option: str, path: Path, model: ir.Model) -> list[str]:
    try:
        text = read_option_file(path)
    except UnreadableFile:  # which is said for all buckets together
        return []
    if option == "modify_mixlist":
        lines = [BY_TYPE + kind for kind in mixlist_types(text)]
    elif option == "op_precision_mode":
        modes = precision_modes(text)
        lines = [name if section == BY_NODE_NAME else BY_TYPE + name for section, name, _ in modes]
    else:
        return unmatched_lines(model, text)
    return [line.removeprefix(BY_TYPE) for line in unmatched_lines(model, "\n".join(lines))]
