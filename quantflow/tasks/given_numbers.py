"""Numbers that belong to records: from a text file, a .npy file or a user's function."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow import user_code
from quantflow.artifacts.array_files import load_npy, shortened
from quantflow.artifacts.digest import file_digest
from quantflow.config import resolve_path
from quantflow.errors import fail

_GREATEST = 2**63 - 1
"""Of int64."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
"""What `int` takes besides is refused: ``1_0``, and digits of other scripts."""


def read_numbers(
    name: str, base: Path, key: str, code: str, parse: Callable[[str], Any]
) -> NDArray[Any]:
    """What a configuration's `name` gives, as an array.

    Args:
        name: ``module:function``, a ``.npy`` file, or a text file.
        base: directory that relative paths and modules start from.
        key: of the configuration that names it.
        code: of the error where it gives no array.
        parse: of a text file's content.

    Raises:
        QuantflowError: QF104 and QF105 when nothing is there, QF304 when the function raises,
            `code` when it is no array.
    """
    try:
        given = _read(name, base, key, parse)
    except (OSError, ValueError, RecursionError) as error:
        fail(code, f"{key} cannot be read: {shortened(str(error))}", where=name)
    try:
        return np.asarray(given)
    except Exception as error:  # whatever __array__ of a function's result does
        what = f"{type(error).__name__}: {shortened(str(error))}"
        fail(code, f"{key} makes no array: {what}", where=name)


def load_indices(
    name: str, base: Path, count: int, key: str, below: int | None = None
) -> NDArray[np.int64]:
    """A whole number, 0 or more, for every record.

    Args:
        name: see `read_numbers`; the numbers of a text file stand between blanks, commas or line
            ends.
        base: directory that relative paths and modules start from.
        count: number of records.
        key: of the configuration that names it.
        below: what all must be less than, where that is known.

    Returns:
        ``(count,)`` int64.

    Raises:
        QuantflowError: as `read_numbers`; QF316 when it is no such vector.
    """
    found = read_numbers(name, base, key, "QF316", _whole_numbers)
    if found.ndim == 2 and 1 in found.shape:
        found = found.ravel()
    if found.shape != (count,):
        what = f"there are {count} records, so {key} must be ({count},), found {found.shape}"
        fail("QF316", what, where=name)
    if found.dtype.kind not in "iu":  # numpy counts timedelta among the integers
        fail("QF316", f"{key} must hold whole numbers, found {found.dtype}", where=name)
    # Before the cast, which wraps 2**64 - 1 around to -1.
    most = _GREATEST if below is None else below - 1
    wrong = np.flatnonzero((found < 0) | (found > most))
    if len(wrong):
        first = int(wrong[0])
        asked = "0 or more" if below is None and found[first] < 0 else f"0 to {most}"
        what = f"{key} of record {first} is {found[first]}, must be {asked}"
        fail("QF316", what, where=name)
    return found.astype(np.int64)


def numbers_digest(name: str, base: Path) -> str:
    """Digest of the file, or of the source of the function's module.

    Raises:
        QuantflowError: QF104 and QF105 when nothing is there.
    """
    if _is_function(name):
        return user_code.source_digest(name, base)
    return file_digest(_file(name, base, name))


def _read(name: str, base: Path, key: str, parse: Callable[[str], Any]) -> Any:
    if _is_function(name):
        function = user_code.load_function(name, base)
        try:
            return function()
        except (Exception, SystemExit) as error:
            fail("QF304", f"the function raised {type(error).__name__}: {error}", where=name)
    path = _file(name, base, key)
    if path.suffix == ".npy":
        return load_npy(path)
    return parse(path.read_text(encoding="utf-8-sig"))


def _file(name: str, base: Path, key: str) -> Path:
    path = resolve_path(name, base)
    if not path.is_file():
        fail("QF104", f"no such file: {path}", where=key, fix="check the path")
    return path


def _whole_numbers(text: str) -> list[int]:
    words = text.replace(",", " ").split()
    for word in words:
        if not _WHOLE.fullmatch(word):
            raise ValueError(f"{shortened(word)!r} is no whole number")
    return [int(word) for word in words]


def _is_function(name: str) -> bool:
    return ":" in name.removeprefix("package:")
