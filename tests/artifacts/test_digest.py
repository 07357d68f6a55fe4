import hashlib
import os
import time
from pathlib import Path

import pytest

from quantflow.artifacts import digest
from quantflow.artifacts.digest import file_digest


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_file_that_was_just_written_is_read_every_time(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for content in (b"a", b"b", b"c"):  # the same size, within one tick of the clock
        path.write_bytes(content)
        assert file_digest(path) == sha256(content)


def test_a_settled_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "_SETTLED_NS", 0)
    path = tmp_path / "x"
    path.write_bytes(b"a")
    reads = list[int]()
    real = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *x: (reads.append(1), real(*x))[1])
    assert [file_digest(path), file_digest(path)] == [sha256(b"a")] * 2
    assert len(reads) == 1


def test_a_change_shows_even_when_the_time_of_modification_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest, "_SETTLED_NS", 0)
    path = tmp_path / "x"
    path.write_bytes(b"a")
    before = path.stat()
    assert file_digest(path) == sha256(b"a")
    time.sleep(0.05)
    path.write_bytes(b"b")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file_digest(path) == sha256(b"b")
