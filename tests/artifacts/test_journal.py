"""The journal: what was noted is there after a kill at any byte, exactly."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.journal import Journal


def write(path: Path, count: int) -> None:
    journal = Journal(path)
    for i in range(count):
        journal.note(f"k{i}", [i, i / 3])


def known(path: Path) -> dict[str, object]:
    journal = Journal(path)
    return {f"k{i}": journal.get(f"k{i}") for i in range(20) if f"k{i}" in journal}


def test_a_new_journal_knows_nothing_and_writes_no_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    assert "a" not in journal and not (tmp_path / "j").exists()
    with pytest.raises(KeyError):
        journal.get("a")


def test_what_is_noted_is_read_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.note("a", [0.1, 0.2])
    assert journal.get("a") == [0.1, 0.2]
    again = Journal(tmp_path / "j")
    assert "a" in again and again.get("a") == [0.1, 0.2]


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.floats(allow_nan=False), max_size=5))
def test_floats_read_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("j") / "j"
    Journal(path).note("a", values)
    found = Journal(path).get("a")
    assert [x.hex() for x in found] == [x.hex() for x in values]


def test_nan_and_infinity_read_back(tmp_path: Path) -> None:
    Journal(tmp_path / "j").note("a", [math.nan, math.inf, -math.inf])
    found = Journal(tmp_path / "j").get("a")
    assert math.isnan(found[0]) and found[1:] == [math.inf, -math.inf]


def test_a_kill_at_any_byte_loses_at_most_the_entry_being_written(tmp_path: Path) -> None:
    path = tmp_path / "j"
    write(path, 3)
    data = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        complete = sum(end <= cut for end in ends)
        assert list(known(path)) == [f"k{i}" for i in range(complete)]


def test_what_is_noted_after_a_kill_is_not_lost_at_the_next(tmp_path: Path) -> None:
    path = tmp_path / "j"
    write(path, 3)
    data = path.read_bytes()
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        before = known(path)
        journal = Journal(path)  # the second attempt
        for i in range(5, 8):
            journal.note(f"k{i}", [i])
        found = known(path)  # the third
        assert found == before | {f"k{i}": [i] for i in range(5, 8)}
        for line in path.read_text().splitlines():
            json.loads(line)


def test_garbage_ends_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"
    for bad in (b"\0\0\0\n", b"\xff\xfe\n", b"[1]\n", b'"text"\n', b'{"key": 1}\n', b"null\n"):
        write(path, 2)
        with path.open("ab") as stream:
            stream.write(bad)
        assert list(known(path)) == ["k0", "k1"]
        Journal(path).note("k2", 0)
        assert list(known(path)) == ["k0", "k1", "k2"]
        path.unlink()


def test_the_last_note_of_a_key_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.note("a", 1)
    journal.note("a", 2)
    assert Journal(tmp_path / "j").get("a") == 2
