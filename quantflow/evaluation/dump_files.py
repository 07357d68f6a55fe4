"""Tensors in .npy and .npz files, which anybody may have written: no pickles, no other places."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import fail

PICKLES = (".pt", ".pth", ".pkl", ".pickle")
"""What tools write that only unpickling, which runs code from the file, can read."""

AS_NUMPY = (
    "write them as .npy beside it, for each file: numpy.save(path.with_suffix('.npy'), "
    "torch.load(path, weights_only=True).float().numpy())"
)


def file_inside(root: Path, name: str) -> Path:
    """The file that a name in an untrusted directory stands for.

    Args:
        root: the directory.
        name: relative to it.

    Raises:
        QuantflowError: QF341 when it lies, or leads, out of the directory.
    """
    parts = PurePosixPath(name)
    path = root / parts
    leads_out = parts.is_absolute() or ".." in parts.parts or "\\" in name or "\0" in name
    if leads_out or not path.resolve().is_relative_to(root.resolve()):
        what = f"{name!r} leads out of the directory"
        fail("QF341", what, where=str(root), fix="put a copy of the file into the directory")
    return path


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
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        _refuse(path, error)
    if not isinstance(array, np.ndarray):
        fail("QF341", "not a .npy file: an archive of arrays", where=str(path), fix="call it .npz")
    return _numbers(cast("NDArray[Any]", array), str(path))


def npz_names(path: Path) -> list[str]:
    """Names of the arrays in an .npz file.

    Raises:
        QuantflowError: QF341 when it cannot be read.
    """
    try:
        loaded: Any = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            fail("QF341", "not an .npz file: a single array", where=str(path), fix="call it .npy")
        with loaded as archive:
            return [str(name) for name in archive.files]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        _refuse(path, error)


def read_npz(path: Path, name: str) -> NDArray[Any]:
    """One array of an .npz file, which is read in whole.

    Raises:
        QuantflowError: QF341 when it is damaged, holds objects or is no array of numbers.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            array: NDArray[Any] = archive[name]
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zipfile.error) as error:
        _refuse(path, error)
    return _numbers(array, f"{path}: {name}")


def _numbers(array: NDArray[Any], where: str) -> NDArray[Any]:
    if array.dtype.kind not in "biuf":
        fail("QF341", f"an array of {array.dtype}, not of numbers", where=where, fix="leave it out")
    return array


def _refuse(path: Path, error: Exception) -> NoReturn:
    what = f"{path.name} is no readable array: {error}"
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        what = f"{path.name} holds Python objects (a pickle), which are refused"
    fail("QF341", what, where=str(path), fix="write it again, with numpy.save or numpy.savez")
