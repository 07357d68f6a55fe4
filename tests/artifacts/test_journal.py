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
    return Journal(path).entries


def test_a_new_journal_knows_nothing_and_writes_no_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    assert journal.entries == {} and not (tmp_path / "j").exists()


def test_what_is_noted_is_read_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.note("a", [0.1, 0.2])
    assert journal.entries == {"a": [0.1, 0.2]}
    assert Journal(tmp_path / "j").entries == {"a": [0.1, 0.2]}


def test_entries_are_a_copy_in_the_order_of_their_making(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.note("b", 1)
    journal.note("a", {"x": None})
    journal.entries["c"] = 2
    for found in (journal, Journal(tmp_path / "j")):
        assert list(found.entries.items()) == [("b", 1), ("a", {"x": None})]


def test_keys_may_be_any_text(tmp_path: Path) -> None:
    keys = ["a\nb", "", "é\u2028\x85", '"}']
    for key in keys:
        Journal(tmp_path / "j").note(key, key)
    assert Journal(tmp_path / "j").entries == {key: key for key in keys}


@settings(max_examples=50)
@given(values=st.lists(st.floats(allow_nan=False), max_size=5))
def test_floats_read_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("j") / "j"
    Journal(path).note("a", values)
    found = Journal(path).entries["a"]
    assert [x.hex() for x in found] == [x.hex() for x in values]


def test_nan_and_infinity_read_back(tmp_path: Path) -> None:
    Journal(tmp_path / "j").note("a", [math.nan, math.inf, -math.inf])
    found = Journal(tmp_path / "j").entries["a"]
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
    assert Journal(tmp_path / "j").entries["a"] == 2
