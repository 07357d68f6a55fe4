"""A full disk, as /dev/full is one: the error names the file, and half a stage is cleared away."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.journal import Journal
from quantflow.artifacts.run_directory import JOURNAL, RunDirectory
from quantflow.artifacts.weight_file import write_weights
from quantflow.cli.failure import machine_problem


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    def mkstemp(**_: Any) -> tuple[int, str]:
        return os.open("/dev/full", os.O_RDWR), "/nowhere/half"

    monkeypatch.setattr("tempfile.mkstemp", mkstemp)


def _content(path: Path) -> None:
    write_atomically(path, bytes(10))


def _weight(path: Path) -> None:
    # numpy writes it, and says of a short write only how short it was.
    write_weights([ir.tensor(np.ones(100_000, np.float32))], path)


@pytest.mark.parametrize("write", [_content, _weight])
@pytest.mark.usefixtures("full")
def test_the_file_that_cannot_be_written_is_named(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    with pytest.raises(OSError, match=r"space|requested") as caught:
        write(tmp_path / "file")
    error = machine_problem(caught.value)
    assert error is not None
    assert error.problems[0].code == "QF604"
    assert error.problems[0].where == str(tmp_path / "file")


def test_a_journal_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    (tmp_path / "j").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space") as caught:
        journal.note("a", 1)
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(tmp_path / "j")


def test_what_is_half_done_leaves_the_full_disk_but_for_the_journal(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)

    def attempt() -> None:
        with run.writing("30_sweep", "1.0", {}) as folder:
            Journal(folder / JOURNAL).note("a", 1)
            (folder / "model.onnx").write_bytes(bytes(1000))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space"):
        attempt()
    left = {path.name for path in (tmp_path / "30_sweep.partial").iterdir()}
    assert left == {JOURNAL, ".attempt"}
    with run.writing("30_sweep", "1.0", {}) as folder:
        assert Journal(folder / JOURNAL).entries == {"a": 1}
