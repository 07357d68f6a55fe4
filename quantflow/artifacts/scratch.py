"""Large files of short life: where they belong, and arrays kept in one."""

from __future__ import annotations

import os
from collections.abc import Hashable
from math import prod
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_ON_DISK = Path("/var/tmp")
"""By convention on disk, where `/tmp` lies in memory on many systems."""


def scratch_folder() -> str | None:
    """Folder for large files of short life, or None for Python's choice: that of `TMPDIR`."""
    chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return str(_ON_DISK) if not chosen and os.access(_ON_DISK, os.W_OK) else None


class ArrayFile:
    """Arrays by key, on disk until they are asked for.

    The file has no name, so that it is gone when the process ends, however it ends.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] = TemporaryFile(dir=scratch_folder())  # noqa: SIM115
        self._places = dict[Hashable, tuple[int, np.dtype[Any], tuple[int, ...]]]()

    def add(self, key: Hashable, array: NDArray[Any]) -> None:
        """Keep an array."""
        self._places[key] = self._file.seek(0, os.SEEK_END), array.dtype, array.shape
        self._file.write(np.ascontiguousarray(array).data)

    def __getitem__(self, key: Hashable) -> NDArray[Any]:
        """The array of a key, read anew."""
        start, dtype, shape = self._places[key]
        self._file.seek(start)
        content = self._file.read(prod(shape) * dtype.itemsize)
        return np.frombuffer(content, dtype).reshape(shape)
