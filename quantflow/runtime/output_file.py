"""Outputs of many samples in a file without a name, since those of a language model fill memory."""

from __future__ import annotations

from math import prod
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
from numpy.typing import NDArray


class OutputFile:
    """Float32 arrays by sample, on disk until they are asked for.

    The file has no name, so that it is gone when the process ends, however it ends.

    Args:
        folder: on whose disk it lies; without it, that of the system's temporary files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._file: IO[bytes] = TemporaryFile(dir=folder)  # noqa: SIM115
        self._places = dict[int, tuple[int, tuple[int, ...]]]()

    def __len__(self) -> int:
        return len(self._places)

    def add(self, index: int, array: NDArray[np.float32]) -> None:
        """Keep the array of a sample."""
        self._places[index] = (self._file.seek(0, 2), array.shape)
        array.tofile(self._file)

    def __getitem__(self, index: int) -> NDArray[np.float32]:
        """The array of a sample, read anew."""
        start, shape = self._places[index]
        self._file.seek(start)
        return np.fromfile(self._file, np.float32, prod(shape)).reshape(shape)
