"""What is shared out, and how machines are shared."""

from __future__ import annotations

import os

import pytest

from quantflow.config import RuntimeConfig
from quantflow.runtime.workers import ALONE, Place, place_from_environment, share, shared_machine

from .threads import together


def test_every_item_is_one_worker_s() -> None:
    parts = together(3, lambda workers: list(share(range(8), workers)))
    assert parts == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_a_worker_without_items_has_none() -> None:
    assert together(3, lambda workers: list(share("ab", workers))) == [["a"], ["b"], []]


def test_a_single_process_has_everything_and_exchanges_with_itself() -> None:
    count = ALONE.counter()
    assert list(share("abc", ALONE)) == ["a", "b", "c"]
    assert ALONE.exchange(b"x") == [b"x"] and [count(2), count(3)] == [2, 5]


def test_the_place_is_what_torchrun_says(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    assert place_from_environment() == Place(5, 8, 1, 4)
    monkeypatch.delenv("RANK")
    assert place_from_environment() == Place()


@pytest.mark.parametrize(
    ("threads", "local_count", "expected"), [(0, 2, 4), (0, 16, 1), (3, 2, 3), (0, 1, 0)]
)
def test_workers_of_one_machine_divide_its_processors(
    threads: int, local_count: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    place = Place(0, local_count, 0, local_count)
    assert shared_machine(RuntimeConfig(threads=threads), place).threads == expected
