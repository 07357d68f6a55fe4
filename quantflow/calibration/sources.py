"""Where records come from: one reader a kind of source, all with length and access by position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

from quantflow import user_code
from quantflow.artifacts.digest import path_digest, value_digest
from quantflow.calibration.dataset_files import Format, first_rows, read_files, read_saved_dataset
from quantflow.calibration.image_folder import read_image_folders
from quantflow.calibration.npz_file import read_npz
from quantflow.config import SourceConfig, SourceKind, resolve_path
from quantflow.errors import fail

Records = Sequence[Mapping[str, Any]]
"""Records in a fixed order. Those of files stay on disk until they are asked for."""

_FORMATS: dict[SourceKind, Format] = {
    "jsonl": "json",
    "csv": "csv",
    "parquet": "parquet",
    "text": "text",
}

_READERS: dict[SourceKind, Callable[[Sequence[Path]], Records]] = {
    "imagefolder": read_image_folders,
    "dataset": read_saved_dataset,
    "npz": read_npz,
}


def read_records(source: SourceConfig, base: Path, column: str = "text") -> Records:
    """The records of a source.

    Args:
        source: where they are. A glob stands for its files in order of their paths; of an
            `imagefolder`, records are ``{"image": PIL.Image, "label": str}``.
        base: directory that relative paths and modules start from.
        column: where a `text` source's records have their line.

    Raises:
        QuantflowError: QF104 when nothing is there, QF105 and QF304 for a user's function, QF301
            when there is no record, QF302 when a file cannot be read.
    """
    if source.kind == "function":
        return _call(cast(str, source.function), base)
    paths = source_paths(source, base)
    if source.kind in _FORMATS:
        return _some(read_files(_FORMATS[source.kind], paths, column), source)
    return _some(_READERS[source.kind](paths), source)


def first_records(
    source: SourceConfig, base: Path, count: int, column: str = "text"
) -> list[Mapping[str, Any]]:
    """The first records of a source; what is lazy about it stays unread.

    Args:
        source, base, column: see `read_records`.
        count: how many, if there are as many.

    Raises:
        QuantflowError: as `read_records`, as far as these records show it.
    """
    if source.kind == "function":
        return list(_call(cast(str, source.function), base, limit=count))
    paths = source_paths(source, base)
    if source.kind in _FORMATS:
        return list(_some(first_rows(_FORMATS[source.kind], paths, count, column), source))
    records = _some(_READERS[source.kind](paths), source)
    return [records[i] for i in range(min(count, len(records)))]


def _some(records: Records, source: SourceConfig) -> Records:
    if not len(records):
        fail("QF301", "no record in the source", where=describe(source))
    return records


def source_digest(source: SourceConfig, base: Path) -> str:
    """Digest of a source's files, names included, or of its function's source code.

    What a user's function reads is not known, hence not part of it.
    """
    if source.kind == "function":
        name = cast(str, source.function)
        return value_digest([source.kind, name, user_code.source_digest(name, base)])
    paths = source_paths(source, base)
    return value_digest([source.kind, *([path.name, path_digest(path)] for path in paths)])


def source_paths(source: SourceConfig, base: Path) -> list[Path]:
    """The file, the files of a glob in order, or the directory that a source names."""
    name = cast(str, source.path)
    path = resolve_path(name, base)
    paths = sorted(path.parent.glob(path.name)) if "*" in path.name else [path]
    if not paths or not paths[0].exists():
        fail("QF104", f"no such file: {path}", where=describe(source), fix="check the path")
    folder = source.kind in ("imagefolder", "dataset")
    for found in paths:
        if found.is_dir() != folder:
            wanted = "a directory" if folder else "a file"
            fail("QF302", f"kind {source.kind!r} needs {wanted}", where=str(found))
    return paths


def describe(source: SourceConfig) -> str:
    """The source in a few words, as the configuration names it."""
    return f"{source.kind} {source.function or source.path}"


def _call(name: str, base: Path, limit: int | None = None) -> Records:
    """What a function returns, or the first `limit` records of it."""
    function = user_code.load_function(name, base)
    try:
        given: object = function()
        if isinstance(given, Sequence) and not isinstance(given, str):
            # It may be lazy, so that only the first record is looked at.
            records = cast(Sequence[object], given)
            records = records if limit is None else list(records[:limit])
            checked = records[:1]
        else:
            checked = records = list(islice(cast(Iterable[object], given), limit))
    except (Exception, SystemExit) as error:  # scripts may well call sys.exit
        fail("QF304", f"the function raised {type(error).__name__}: {error}", where=name)
    if not len(records):
        fail("QF301", "the function yields no record", where=name)
    for record in checked:
        if not isinstance(record, Mapping):
            what = f"the function must yield dict records, not {type(record).__name__}"
            fail("QF304", what, where=name)
    return cast(Records, records)
