"""Numbers that belong to records: from a text file, a .npy file or a user's function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow import user_code
from quantflow.artifacts.digest import file_digest
from quantflow.config import resolve_path
from quantflow.errors import fail


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
        return np.asarray(_read(name, base, key, parse))
    except (OSError, ValueError, TypeError, EOFError) as error:
        what = "it holds Python objects" if "allow_pickle" in str(error) else str(error)
        fail(code, f"{key} cannot be read: {what}", where=name)


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
    if not np.issubdtype(found.dtype, np.integer):
        fail("QF316", f"{key} must hold whole numbers, found {found.dtype}", where=name)
    most = int(found.max()) if below is None else below - 1
    wrong = np.flatnonzero((found < 0) | (found > most))
    if len(wrong):
        first = int(wrong[0])
        what = f"{key} of record {first} is {found[first]}, must be 0 to {most}"
        fail("QF316", what, where=name)
    return found.astype(np.int64)


def numbers_digest(name: str, base: Path) -> str:
    """Digest of the file, or of the source of the function's module."""
    if _is_function(name):
        return user_code.source_digest(name, base)
    return file_digest(resolve_path(name, base))


def _read(name: str, base: Path, key: str, parse: Callable[[str], Any]) -> Any:
    if _is_function(name):
        function = user_code.load_function(name, base)
        try:
            return function()
        except (Exception, SystemExit) as error:
            fail("QF304", f"the function raised {type(error).__name__}: {error}", where=name)
    path = resolve_path(name, base)
    if not path.is_file():
        fail("QF104", f"no such file: {path}", where=key, fix="check the path")
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    return parse(path.read_text(encoding="utf-8"))


def _whole_numbers(text: str) -> list[int]:
    return [int(word) for word in text.replace(",", " ").split()]


def _is_function(name: str) -> bool:
    return ":" in name.removeprefix("package:")
