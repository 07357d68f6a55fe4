# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Files read through the `datasets` library. The only module that imports it.

What it converts goes into a temporary directory that lives as long as the records do, so that
nothing is written beside the user's data and no stale cache is ever read.
"""

from __future__ import annotations

import glob
import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast, overload

import numpy as np

from quantflow.errors import fail

if TYPE_CHECKING:
    from datasets import Dataset

Format = Literal["json", "csv", "parquet", "text"]

_OPTIONS: dict[Format, dict[str, Any]] = {
    # The word "None" in a column of text is text.
    "csv": {"keep_default_na": False},
}


class DatasetRecords(Sequence[Mapping[str, Any]]):
    """Rows of a memory-mapped table."""

    def __init__(self, table: Dataset) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> DatasetRecords: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | DatasetRecords:
        if isinstance(index, slice):
            return DatasetRecords(self._table.select(range(*index.indices(len(self)))))
        try:
            return cast("dict[str, Any]", self._table[index])
        except IndexError:
            raise
        except Exception as error:  # an image is only decoded here
            fail("QF302", f"record {index} cannot be read: {_last_cause(error)}")


def read_files(kind: Format, paths: Sequence[Path], column: str = "text") -> DatasetRecords:
    """The records of files of one format, in the order of `paths`.

    Args:
        kind: the format; `text` gives one record per non-empty line.
        paths: the files.
        column: what the column of `text` is called.

    Raises:
        QuantflowError: QF301 when a file is empty, QF302 when one cannot be read.
    """
    _refuse_empty(paths)
    with _quiet():
        table = _convert(kind, paths)
        if kind == "text":
            lines = cast("Iterable[str]", table["text"])
            table = table.select(np.flatnonzero([bool(line.strip()) for line in lines]))
            table = table if column == "text" else table.rename_column("text", column)
    return DatasetRecords(table)


def first_rows(
    kind: Format, paths: Sequence[Path], count: int, column: str = "text"
) -> list[Mapping[str, Any]]:
    """The first `count` records that `read_files` gives, without reading or converting the rest.

    Raises:
        QuantflowError: QF301 and QF302, as far as these records show it.
    """
    _refuse_empty(paths)
    with _quiet(), tempfile.TemporaryDirectory(prefix="quantflow-records-") as directory:
        try:
            rows = cast("Iterable[dict[str, Any]]", _load(kind, paths, directory, streaming=True))
            if kind == "text":
                rows = ({column: row["text"]} for row in rows if row["text"].strip())
            return list(islice(rows, count))
        except Exception as error:
            _fail_reading(kind, paths, error)


def _refuse_empty(paths: Sequence[Path]) -> None:
    for path in paths:
        if not path.stat().st_size:
            fail("QF301", "the file is empty", where=str(path), fix="remove it, or fill it")


def read_saved_dataset(paths: Sequence[Path]) -> DatasetRecords:
    """The records of directories written by ``save_to_disk``, one after the other.

    Raises:
        QuantflowError: QF302 when a directory is not one, or holds several splits.
    """
    with _quiet():
        import datasets

        tables: list[Dataset] = []
        for path in paths:
            try:
                table = datasets.load_from_disk(path)
            except Exception as error:
                what = f"not a directory saved by datasets: {_last_cause(error)}"
                fail("QF302", what, where=str(path), fix="write it with Dataset.save_to_disk")
            if isinstance(table, datasets.DatasetDict):
                what = f"the directory holds the splits {sorted(map(str, table))}"
                fail("QF302", what, where=str(path), fix="name one of them: path/SPLIT")
            tables.append(table)
        return DatasetRecords(datasets.concatenate_datasets(tables))


def _load(kind: Format, paths: Sequence[Path], directory: str, **options: Any) -> Any:
    from datasets import Dataset

    # Not load_dataset: it reports every call to a server, even for local files.
    readers: dict[Format, Callable[..., Any]] = {
        "json": Dataset.from_json,
        "csv": Dataset.from_csv,
        "parquet": Dataset.from_parquet,
        "text": Dataset.from_text,
    }
    names = [glob.escape(str(path.resolve())) for path in paths]
    return readers[kind](names, cache_dir=directory, **_OPTIONS.get(kind, {}), **options)


def _convert(kind: Format, paths: Sequence[Path]) -> Dataset:
    directory = tempfile.mkdtemp(prefix="quantflow-records-")
    try:
        table: Dataset = _load(kind, paths, directory)
    except Exception as error:
        shutil.rmtree(directory, ignore_errors=True)
        _fail_reading(kind, paths, error)
    # Tables made from this one share the memory map, which keeps removed files readable.
    weakref.finalize(table, shutil.rmtree, directory, ignore_errors=True)
    return table


def _fail_reading(kind: Format, files: Sequence[Path], error: Exception) -> NoReturn:
    if kind == "json":
        for path in files:
            _check_json_lines(path)
    where = ", ".join(map(str, files[:3])) + (", ..." if len(files) > 3 else "")
    if "corresponds to no data" in str(error):  # a table with a header alone
        fail("QF301", "no record in the source", where=where)
    fail("QF302", f"not readable as {kind}: {_last_cause(error)}", where=where)


def _check_json_lines(path: Path) -> None:
    """Name the first line that is not a JSON object, which the library's message does not."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                found = type(json.loads(line)).__name__
            except ValueError as error:
                fail("QF302", f"not valid JSON: {error}", where=f"{path}, line {number}")
            if found != "dict":
                what = f"a line must hold a JSON object, found {found}"
                fail("QF302", what, where=f"{path}, line {number}")


def _last_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}".strip()


@contextmanager
def _quiet() -> Generator[None]:
    """Neither progress bars nor log lines of the library, for errors say the same in our words."""
    from datasets.utils import logging
    from datasets.utils.tqdm import are_progress_bars_disabled, disable_progress_bars
    from datasets.utils.tqdm import enable_progress_bars as enable

    shown, verbosity = not are_progress_bars_disabled(), logging.get_verbosity()
    disable_progress_bars()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            enable()
