"""Workers as threads of one process: the same protocol, with a barrier in place of a network."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock
from typing import TypeVar

from quantflow.runtime.workers import Counter, Order, Place, Workers

T = TypeVar("T")


class _Board:
    """What the threads share."""

    def __init__(self, count: int) -> None:
        self.barrier = Barrier(count, timeout=30)
        self.parts = [b""] * count
        self.counts: dict[int, int] = {}
        self.lock = Lock()


class ThreadWorkers:
    """One of several threads."""

    def __init__(self, board: _Board, rank: int) -> None:
        self._board, self._counters = board, 0
        self.place = Place(rank, len(board.parts), rank, len(board.parts))

    def assign(self, order: Order) -> None: ...

    def connect(self, provider: str) -> None: ...

    def counter(self) -> Counter:
        number, self._counters = self._counters, self._counters + 1

        def add(amount: int) -> int:
            with self._board.lock:
                self._board.counts[number] = self._board.counts.get(number, 0) + amount
                return self._board.counts[number]

        return add

    def exchange(self, content: bytes) -> list[bytes]:
        self._board.parts[self.place.rank] = content
        self._board.barrier.wait()
        found = list(self._board.parts)
        self._board.barrier.wait()
        return found


def together(count: int, work: Callable[[Workers], T]) -> list[T]:
    """What each of `count` workers returns, by rank."""
    board = _Board(count)
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda rank: work(ThreadWorkers(board, rank)), range(count)))
