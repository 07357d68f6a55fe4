"""The layout that msprobe writes, of MindStudio's training tools: dump.json and tensor files.

Source: msprobe's guide to dump.json of PyTorch (level L0), docs/zh/dump/pytorch_data_dump_instruct.
``data`` has an entry for every call of a module, ``Module.<path>.<class>.forward.<call>`` (``Cell``
instead of ``Module`` in MindSpore), with its ``output``: a list of tensors, each with the name of
its file, ``data_name``. The files lie in ``dump_tensor_data`` beside dump.json; ``dump_data_dir``
says where that was on the machine that wrote it, and only its last part is used.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from quantflow.artifacts.array_files import shortened
from quantflow.errors import fail
from quantflow.evaluation.dump_files import LONGEST, check_text, file_inside, refuse_pickle

DUMP = "dump.json"
FOLDER = "dump_tensor_data"

_MODULE_CALL = re.compile(r"^(?:Module|Cell)\.(?P<path>.+)\.[^.]+\.forward\.(?P<call>\d+)$")
_OTHER_CALL = re.compile(r"^(?P<path>.+)\.forward(?:\.\d+)?$")


def msprobe_files(listing: Path) -> dict[str, Path]:
    """The file of every output, by the module's path, in the order of dump.json.

    A second call of a module is ``<path>#1``, its second output ``<path>.output.1``. Calls of
    functions keep their names (``Functional.conv2d.0``). Inputs, parameters and gradients are left
    out.

    Args:
        listing: dump.json.

    Raises:
        QuantflowError: QF341 when it is no such dump, holds statistics only, gives one name to two
            tensors, or names files that are pickles, are missing or lie elsewhere.
    """
    tree = _read(listing)
    folder, found = _folder(listing, tree), dict[str, Path]()
    entries = cast("dict[str, Any]", tree["data"])
    for key, entry in entries.items():
        check_text(key, listing)
        name = module_name(key)
        for index, file in enumerate(_outputs(entry)) if name else ():
            if file:
                called = name if not index else f"{name}.output.{index}"
                if called in found:
                    what = f"two tensors are called {called!r}, one of them by {key!r}"
                    fail("QF341", what, where=str(listing), fix="leave one of them out")
                found[called] = _tensor_file(folder, file, listing)
    if not found:
        what = "dump.json names no tensor file of a forward call"
        fix = 'dump with "task": "tensor"; statistics alone cannot be compared'
        fail("QF341", what, where=str(listing), fix=fix)
    return found


def module_name(key: str) -> str:
    """The module's path in a key of dump.json, with the number of the call after the first.

    Empty for what is no forward call.
    """
    if match := _MODULE_CALL.match(key):
        call = int(match["call"])
        return match["path"] if call == 0 else f"{match['path']}#{call}"
    match = _OTHER_CALL.match(key)
    return match["path"] if match else ""


def _read(listing: Path) -> Mapping[str, Any]:
    try:
        text = listing.read_text(encoding="utf-8")
        tree: Any = json.loads(text, object_pairs_hook=_without_doubles)
    except (OSError, ValueError, RecursionError) as error:
        what = f"dump.json cannot be read: {shortened(str(error))}"
        fail("QF341", what, where=str(listing), fix="dump again")
    if not isinstance(tree, dict) or not isinstance(cast("Any", tree).get("data"), dict):
        what = 'dump.json holds no "data", as msprobe writes it'
        fail("QF341", what, where=str(listing), fix="rename it, if it is another tool's")
    return cast("Mapping[str, Any]", tree)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!a} is there twice")
    return found


def _folder(listing: Path, tree: Mapping[str, Any]) -> Path:
    """Where the tensor files are: never outside the directory of dump.json."""
    written = tree.get("dump_data_dir")
    last = re.split(r"[/\\]", str(written or "").rstrip("/\\"))[-1]
    for name in (FOLDER, last):
        if name not in ("", ".", "..") and len(name) <= LONGEST:
            folder = file_inside(listing.parent, name)
            if folder.is_dir():
                return folder
    return listing.parent


def _outputs(entry: Any) -> Iterator[str]:
    """Names of the files of an entry's outputs, empty where there is none."""
    outputs: Any = cast("Any", entry).get("output") if isinstance(entry, dict) else None
    for output in cast("list[Any]", outputs) if isinstance(outputs, list) else []:
        name: Any = cast("Any", output).get("data_name") if isinstance(output, dict) else None
        yield name if isinstance(name, str) else ""


def _tensor_file(folder: Path, name: str, listing: Path) -> Path:
    path = file_inside(folder, name)
    rewritten = file_inside(folder, f"{path.stem}.npy")
    if path.suffix != ".npy" and rewritten.is_file():
        path = rewritten
    refuse_pickle(path)
    if path.suffix != ".npy":
        fail(
            "QF341",
            f"{shortened(repr(name))} is no .npy file",
            where=str(listing),
            fix="dump tensors again",
        )
    if not path.is_file():
        fail(
            "QF341",
            f"{shortened(repr(name))} is missing",
            where=str(folder),
            fix="copy the whole dump",
        )
    return path
