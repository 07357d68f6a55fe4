"""The ledger: measured once, known to all workers, on disk before it is used."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from quantflow.artifacts.journal import Journal
from quantflow.runtime.workers import ALONE, Workers
from quantflow.sensitivity.ledger import Ledger
from tests.distributed.threads import together


def never() -> Any:
    raise AssertionError("it is known already")


def test_what_is_computed_is_noted_and_not_computed_again(tmp_path: Path) -> None:
    ledger = Ledger(Journal(tmp_path / "j"), ALONE)
    assert "a" not in ledger
    assert ledger.recall("a", lambda: [0.1, 1 / 3]) == [0.1, 1 / 3]
    assert "a" in ledger and ledger.entry("a") == [0.1, 1 / 3]
    assert ledger.recall("a", never) == [0.1, 1 / 3]
    again = Ledger(Journal(tmp_path / "j"), ALONE)
    assert again.recall("a", never) == [0.1, 1 / 3]


def test_a_computation_that_fails_leaves_nothing(tmp_path: Path) -> None:
    ledger = Ledger(Journal(tmp_path / "j"), ALONE)
    with pytest.raises(ZeroDivisionError):
        ledger.recall("a", lambda: 1 // 0)
    assert "a" not in ledger and not (tmp_path / "j").exists()
    with pytest.raises(KeyError):
        ledger.entry("a")


def test_without_a_journal_it_remembers_and_writes_nothing() -> None:
    ledger = Ledger(None, ALONE)
    assert ledger.recall("a", lambda: 1) == 1 and ledger.recall("a", never) == 1


def test_workers_are_told_what_the_leader_knows_bit_by_bit(tmp_path: Path) -> None:
    known = {"x\ny": [0.1, math.nan, -math.inf, 5e-324], "z": {"k": [1, None, "é"]}}
    journal = Journal(tmp_path / "j")
    for key, value in known.items():
        journal.note(key, value)
    before = (tmp_path / "j").read_bytes()

    def work(workers: Workers) -> list[Any]:
        leads = workers.place.rank == 0
        ledger = Ledger(Journal(tmp_path / "j") if leads else None, workers)
        return [ledger.recall(key, never) for key in known]

    for floats, rest in together(3, work):
        assert [x.hex() for x in floats] == [x.hex() for x in known["x\ny"]]
        assert rest == known["z"]
    assert (tmp_path / "j").read_bytes() == before


def test_the_leader_alone_writes(tmp_path: Path) -> None:
    def work(workers: Workers) -> Any:
        leads = workers.place.rank == 0
        ledger = Ledger(Journal(tmp_path / "j") if leads else None, workers)
        return ledger.recall("a", lambda: len(workers.exchange(b"")))

    assert together(3, work) == [3, 3, 3]
    assert Journal(tmp_path / "j").entries == {"a": 3}
    assert len((tmp_path / "j").read_text().splitlines()) == 1
