"""Tensors in .npy and .npz files, which anybody may have written: no pickles, no other places."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from numpy.typing import NDArray

from quantflow.artifacts.array_files import (
    NoArrayError,
    load_npy,
    load_npz_member,
    npz_members,
    shortened,
)
from quantflow.errors import fail

PICKLES = (".pt", ".pth", ".pkl", ".pickle")
"""What tools write that only unpickling, which runs code from the file, can read."""

AS_NUMPY = (
    "write them as .npy beside it, for each file: numpy.save(path.with_suffix('.npy'), "
    "torch.load(path, weights_only=True).float().numpy())"
)

LONGEST = 1000
"""Most characters of a tensor's name."""


def file_inside(root: Path, name: str) -> Path:
    """The file that a name in an untrusted directory stands for.

    Args:
        root: the directory.
        name: relative to it.

    Raises:
        QuantflowError: QF341 when it lies, or leads, out of the directory, and for a name that no
            file can have, or a link that leads to itself.
    """
    parts = PurePosixPath(name)
    path = root / parts
    leads_out = parts.is_absolute() or ".." in parts.parts or "\\" in name or "\0" in name
    try:
        if leads_out or not path.resolve().is_relative_to(root.resolve()):
            what = f"{shortened(repr(name))} leads out of the directory"
            fail("QF341", what, where=str(root), fix="put a copy of the file into the directory")
        path.exists()  # which says what a later look would stumble over
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, no text
        reason = error.strerror if isinstance(error, OSError) else "a loop of links, or no text"
        what = f"{shortened(repr(name))} names no file: {reason}"
        fail("QF341", what, where=str(root), fix="leave it out, or rename the file")
    return path


def check_regular(path: Path) -> None:
    """Raise QF341 for what is no regular file: a pipe would be waited for."""
    if not path.is_file():
        what = f"{path.name} is no regular file"
        fail("QF341", what, where=str(path), fix="put a copy of the file in its place")


def check_text(name: str, where: Path) -> None:
    """Raise QF341 for a name that is no text, or too long to be read by anybody."""
    if len(name) > LONGEST or not _is_text(name):
        what = f"the name {shortened(ascii(name))} is no UTF-8 text of {LONGEST} characters or less"
        fail("QF341", what, where=ascii(str(where))[1:-1], fix="rename it")


def _is_text(name: str) -> bool:
    """Whether there is no half of a surrogate pair, nor a byte that could not be decoded."""
    return not any("\ud800" <= char <= "\udfff" for char in name)


def refuse_pickle(path: Path) -> None:
    """Raise QF341 for a file that only unpickling can read."""
    if path.suffix.lower() in PICKLES:
        what = f"{path.name} is a pickle, which is not read: it may run any code"
        fail("QF341", what, where=str(path), fix=AS_NUMPY)


def read_npy(path: Path) -> NDArray[Any]:
    """An array, mapped so that only what is used is read.

    Raises:
        QuantflowError: QF341 when it is damaged, holds objects or is no array of numbers.
    """
    try:
        array = load_npy(path, mapped=True)
    except NoArrayError as error:
        _refuse(path, error)
    return _numbers(array, str(path))


def npz_names(path: Path) -> list[str]:
    """Names of the arrays in an .npz file.

    Raises:
        QuantflowError: QF341 when it cannot be read, or holds something else.
    """
    try:
        names = npz_members(path)
    except NoArrayError as error:
        _refuse(path, error)
    for name in names:
        check_text(name, path)
    return names


def read_npz(path: Path, name: str) -> NDArray[Any]:
    """One array of an .npz file, which is read in whole.

    Raises:
        QuantflowError: QF341 when it is damaged, holds objects or is no array of numbers.
    """
    try:
        array = load_npz_member(path, name)
    except NoArrayError as error:
        _refuse(path, error)
    return _numbers(array, f"{path}: {name}")


def _numbers(array: NDArray[Any], where: str) -> NDArray[Any]:
    if array.dtype.kind not in "biuf":
        fail("QF341", f"an array of {array.dtype}, not of numbers", where=where, fix="leave it out")
    return array


def _refuse(path: Path, error: NoArrayError) -> NoReturn:
    what = f"{path.name} cannot be read: {error}"
    fail("QF341", what, where=str(path), fix="write it again, with numpy.save or numpy.savez")
