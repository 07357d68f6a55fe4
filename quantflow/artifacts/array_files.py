"""Arrays of .npy and .npz files that anybody may have written: checked before memory is taken."""

from __future__ import annotations

import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

_ENCRYPTED = 0x1
"""Bit of a zip member's flags."""

_PICKLE = "it holds Python objects (a pickle), which are refused"

_SAID = 200
"""Most characters of a library's message, which may repeat the file's content."""


class NoArrayError(ValueError):
    """Why a file, or a member of an archive, holds no array that can be read; one sentence."""


def load_npy(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    """The array of an .npy file.

    Args:
        path: of the file.
        mapped: to read only what is used.

    Raises:
        NoArrayError: when it is damaged, an archive, holds objects, or is no regular file.
    """
    _regular(path)
    with _explained(""):
        array: Any = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        array.close()
        raise NoArrayError("it is an archive of arrays (.npz), and no .npy file")
    return array  # pyright: ignore[reportUnknownVariableType]


def npz_members(path: Path) -> list[str]:
    """Names of the arrays of an .npz file, whose sizes are checked and whose values are not read.

    Raises:
        NoArrayError: for a file that is no archive, and for a member that is no array, is
            encrypted, is there twice, or has another size than its header says.
    """
    with _archive(path) as archive:
        names = list[str]()
        for info in archive.infolist():
            names.append(_member_name(info))
            with _explained(f"its member {info.filename!r}: "):
                _member(archive, info).close()
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise NoArrayError(f"it holds two members {shortened(repr(twice))}")
    return names


def load_npz_member(path: Path, name: str) -> NDArray[Any]:
    """An array of an .npz file, read in whole.

    Raises:
        NoArrayError: as `npz_members`, and for damaged data.
    """
    member = f"{name}.npy"
    with (
        _archive(path) as archive,
        _explained(f"its member {member!r}: "),
        _member(archive, archive.getinfo(member)) as stream,
    ):
        stream.seek(0)
        array = npy_format.read_array(stream, allow_pickle=False)
        stream.read(1)  # the end, where the checksum is looked at
        return array


@contextmanager
def _archive(path: Path) -> Generator[zipfile.ZipFile]:
    _regular(path)
    with _explained(""):
        with path.open("rb") as stream:
            if stream.read(len(npy_format.MAGIC_PREFIX)) == npy_format.MAGIC_PREFIX:
                raise NoArrayError("it is a single array (.npy), and no archive")
        archive = zipfile.ZipFile(path)
    with archive:
        yield archive


def _member_name(info: zipfile.ZipInfo) -> str:
    if info.is_dir() or not info.filename.endswith(".npy"):
        raise NoArrayError(f"its member {shortened(repr(info.filename))} is no .npy array")
    if info.flag_bits & _ENCRYPTED:
        raise NoArrayError(f"its member {shortened(repr(info.filename))} is encrypted")
    return info.filename.removesuffix(".npy")


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    """A member, opened, whose header fits the size that the archive gives it."""
    _member_name(info)
    stream = archive.open(info)
    version = npy_format.read_magic(stream)
    read = npy_format.read_array_header_1_0 if version == (1, 0) else _read_later_header
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise NoArrayError(_PICKLE)
    needed = stream.tell() + prod(shape) * dtype.itemsize
    if needed != info.file_size:
        what = f"an array {shape} of {dtype} takes {needed} bytes, and {info.file_size} are there"
        raise NoArrayError(what)
    if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
        raise NoArrayError(f"{info.compress_size} bytes are stored of {info.file_size}")
    return stream


def _read_later_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """That of versions 2 and 3, which differ in the header's encoding only: names of fields."""
    return npy_format.read_array_header_2_0(stream)


def _regular(path: Path) -> None:
    if not path.is_file():  # a pipe would be waited for
        raise NoArrayError("it is no regular file" if path.exists() else "there is no such file")


@contextmanager
def _explained(where: str) -> Generator[None]:
    """Say in one sentence whatever goes wrong: zlib, lzma, ast and others raise their own kinds."""
    try:
        yield
    except NoArrayError as error:
        raise NoArrayError(shortened(where) + str(error)) from error
    except Exception as error:
        said = str(error)
        if "allow_pickle" in said or "Python objects" in said:
            said = _PICKLE
        elif isinstance(error, RecursionError):
            said = "its header is nested too deep"
        raise NoArrayError(shortened(where) + shortened(said or type(error).__name__)) from error


def shortened(text: str) -> str:
    """Its start, where it is long."""
    return text if len(text) <= _SAID else f"{text[:_SAID]}..."
