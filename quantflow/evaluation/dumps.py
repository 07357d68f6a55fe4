"""A directory of tensors that were dumped somewhere else: files named by layer, or msprobe's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from quantflow.errors import fail
from quantflow.evaluation.dump_files import (
    PICKLES,
    check_regular,
    check_text,
    file_inside,
    npz_names,
    read_npy,
    read_npz,
    refuse_pickle,
)
from quantflow.evaluation.msprobe import DUMP, msprobe_files


@dataclass(frozen=True, slots=True)
class DumpedTensor:
    """Where a tensor is: a file, and the name in it where it is an .npz."""

    path: Path
    member: str = ""

    def read(self) -> NDArray[Any]:
        """The array; of an .npy only what is used is read."""
        return read_npz(self.path, self.member) if self.member else read_npy(self.path)


@dataclass(frozen=True, slots=True)
class Dump:
    """A directory of tensors.

    Attributes:
        root: the directory.
        tensors: by name, in the order of `dump.json`, else of the names.
        ordered: whether that is the order in which they were computed.
    """

    root: Path
    tensors: Mapping[str, DumpedTensor]
    ordered: bool = False

    def read(self, name: str) -> NDArray[Any]:
        """A tensor.

        Raises:
            QuantflowError: QF341 when its file cannot be read.
        """
        return self.tensors[name].read()


def open_dump(root: Path) -> Dump:
    """List the tensors of a directory; none is read.

    Args:
        root: holds msprobe's dump.json somewhere, or .npy and .npz files, which are named after
            their place in the directory; an .npz names its arrays itself, unless it holds a single
            one without a name.

    Raises:
        QuantflowError: QF341 for a directory without tensors, with pickles only, with files that
            lead out of it, or with two tensors of one name.
    """
    check_text(str(root), root)
    found = sorted(_files(root))
    listings = [path for path in found if path.name == DUMP]
    if len(listings) > 1:
        places = ", ".join(str(path.parent.relative_to(root)) for path in listings[:5])
        what = f"there are {len(listings)} dump.json: {places}"
        fail("QF341", what, where=str(root), fix="name the directory of one step and rank")
    if listings:
        files = msprobe_files(listings[0])
        tensors = {name: DumpedTensor(path) for name, path in files.items()}
        return Dump(root, tensors, ordered=True)
    tensors = dict[str, DumpedTensor]()
    for path in found:
        for name, tensor in _tensors(root, path):
            if name in tensors:
                what = f"two tensors are called {name!r}: {tensors[name].path.name}, {path.name}"
                fail("QF341", what, where=str(root), fix="leave one of them out")
            tensors[name] = tensor
    if not tensors:
        what = "there is no .npy or .npz file in the directory"
        fail("QF341", what, where=str(root), fix="dump one file for each layer, named after it")
    return Dump(root, tensors)


def _files(root: Path) -> Iterator[Path]:
    """What may be read below a directory; links to directories are not followed."""
    for folder, folders, names in os.walk(root):
        if DUMP in folders:
            fail("QF341", f"{DUMP} is a directory", where=folder, fix="put msprobe's file there")
        for name in names:
            if name != DUMP and Path(name).suffix.lower() not in (".npy", ".npz", *PICKLES):
                continue
            relative = (Path(folder) / name).relative_to(root)
            check_text(relative.as_posix(), root)
            path = file_inside(root, relative.as_posix())
            check_regular(path)
            yield path


def _tensors(root: Path, path: Path) -> Iterator[tuple[str, DumpedTensor]]:
    name = path.relative_to(root).with_suffix("").as_posix()
    if path.suffix.lower() in PICKLES and not path.with_suffix(".npy").is_file():
        refuse_pickle(path)
    if path.suffix == ".npy":
        yield name, DumpedTensor(path)
    if path.suffix == ".npz":
        members = npz_names(path)
        for member in members:
            yield name if members == ["arr_0"] else member, DumpedTensor(path, member)
