"""Records from an .npz file: one array per column, records along the first axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.array_files import NoArrayError, load_npz_member, npz_members
from quantflow.errors import fail


class ArrayRecords(Sequence[Mapping[str, Any]]):
    """Equally long arrays read as records: record i holds row i of each."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        self._length = min((len(array) for array in arrays.values()), default=0)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> dict[str, NDArray[Any]]: ...
    @overload
    def __getitem__(self, index: slice) -> ArrayRecords: ...
    def __getitem__(self, index: int | slice) -> dict[str, NDArray[Any]] | ArrayRecords:
        rows = {name: array[index] for name, array in self._arrays.items()}
        return ArrayRecords(rows) if isinstance(index, slice) else rows

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        return (self[index] for index in range(len(self)))


def read_npz(paths: Sequence[Path], prefix: str = "") -> ArrayRecords:
    """The records of .npz files with the same arrays, one file after the other.

    Args:
        paths: the files.
        prefix: where arrays have it in front of their names, they alone are read, without it.

    Raises:
        QuantflowError: QF302 when a file is damaged, holds objects, or its arrays do not match.
    """
    parts = [_load(path, prefix) for path in paths]
    names = list(parts[0])
    for path, part in zip(paths, parts, strict=True):
        if sorted(part) != sorted(names):
            what = f"arrays {sorted(part)} differ from those of {paths[0].name}: {sorted(names)}"
            fail("QF302", what, where=str(path))
    try:
        return ArrayRecords({n: np.concatenate([part[n] for part in parts]) for n in names})
    except ValueError as error:
        fail("QF302", f"the files' arrays do not fit together: {error}", where=str(paths[0].parent))


def _load(path: Path, prefix: str) -> dict[str, NDArray[Any]]:
    try:
        members = npz_members(path)
        names = [x for x in members if x.startswith(prefix)]
        wanted = {x.removeprefix(prefix): x for x in names} or {x: x for x in members}
        arrays = {name: load_npz_member(path, x) for name, x in wanted.items()}
    except NoArrayError as error:
        fix = "save arrays of numbers only, with numpy.savez"
        fail("QF302", f"not a readable .npz file: {error}", where=str(path), fix=fix)
    lengths = {name: array.shape[0] if array.ndim else None for name, array in arrays.items()}
    if len(set(lengths.values())) > 1 or None in lengths.values():
        what = f"arrays need the same number of samples on axis 0, found {lengths}"
        fail("QF302", what, where=str(path))
    return arrays
