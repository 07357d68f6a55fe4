"""Several processes that share one pass over samples: what the library needs to know of them.

Whole compute batches are shared out, so every batch is computed as one process would compute it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar

from quantflow.config import RuntimeConfig

T = TypeVar("T")

Order = Mapping[str, object]
"""A piece of work that the leader wants help with, JSON-like."""

Counter = Callable[[int], int]
"""Adds a number of units of work done; returns how many all workers together have done."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker stands.

    Attributes:
        rank: its number; 0 is the leader, who alone writes and prints.
        count: number of workers.
        local_rank, local_count: the same among the workers of its machine.
    """

    rank: int = 0
    count: int = 1
    local_rank: int = 0
    local_count: int = 1


class Workers(Protocol):
    """The workers of one command, as one of them sees them.

    All of them call `connect`, `counter` and `exchange` in the same order.
    """

    @property
    def place(self) -> Place:
        """Where this worker stands."""
        ...

    def assign(self, order: Order) -> None:
        """Ask the other workers for help; only the leader does."""
        ...

    def connect(self, provider: str) -> None:
        """Open the way for `exchange` that suits an execution provider."""
        ...

    def counter(self) -> Counter:
        """A counter that starts at 0 and that all workers share."""
        ...

    def exchange(self, content: bytes) -> list[bytes]:
        """Give every worker what each of them has; returns it by rank."""
        ...


class Alone:
    """A single process: needs nobody, and no torch."""

    @property
    def place(self) -> Place:
        """The leader of nobody else."""
        return Place()

    def assign(self, order: Order) -> None:
        """There is nobody to ask."""

    def connect(self, provider: str) -> None:
        """There is nobody to connect to."""

    def counter(self) -> Counter:
        """A counter of this process."""
        done = 0

        def add(amount: int) -> int:
            nonlocal done
            done += amount
            return done

        return add

    def exchange(self, content: bytes) -> list[bytes]:
        """The content itself."""
        return [content]


ALONE = Alone()


def share(items: Iterable[T], workers: Workers) -> Iterator[T]:
    """This worker's items: those at `rank`, ``rank + count``, and so on."""
    return islice(items, workers.place.rank, None, workers.place.count)


def place_from_environment() -> Place:
    """Where torchrun, or a launcher that sets the same variables, put this process."""

    def number(name: str, default: int) -> int:
        text = os.environ.get(name, "")
        return int(text) if text.isdecimal() else default

    if "RANK" not in os.environ:
        return Place()
    return Place(
        rank=number("RANK", 0),
        count=number("WORLD_SIZE", 1),
        local_rank=number("LOCAL_RANK", 0),
        local_count=number("LOCAL_WORLD_SIZE", 1),
    )


def shared_machine(config: RuntimeConfig, place: Place) -> RuntimeConfig:
    """The runtime section for a worker that shares its machine with others.

    Where onnxruntime chooses the number of threads, every worker gets an equal part of the
    processors. Bits do not depend on it as far as was measured (onnxruntime 1.32, two processors
    with AVX-512, 1 to 8 threads): equal were all layer inputs and fp16 measures of MiniLM, MatMuls
    of 1 to 1024 rows and inner sizes up to 11008, convolutions, Softmax, and means and maxima of 19
    million values. onnxruntime makes no such promise, least of all on other devices.
    """
    if config.threads or place.local_count == 1:
        return config
    processors = len(os.sched_getaffinity(0))
    return config.model_copy(update={"threads": max(1, processors // place.local_count)})
