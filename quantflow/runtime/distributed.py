# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportPrivateImportUsage=false
"""Workers of torch.distributed: started by torchrun, on one machine or several.

Two ways lead from one worker to another. What is small - orders, progress, failures, the exit
status - goes through the key-value store that the launcher's processes meet at; waiting there costs
nothing, for hours if need be, and a failure shows at once. Statistics go through collective
operations of gloo, nccl or hccl. Both carry JSON or plain arrays, never pickled objects.

A worker that fails says so in the store; the leader then raises its problem, and everybody ends
with the leader's exit status. No worker enters a collective operation before all have come to it,
so none is left waiting in one.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from quantflow.errors import Problem, QuantflowError, fail
from quantflow.runtime.workers import Counter, Order, Place

if TYPE_CHECKING:
    import torch
    from torch.distributed import Store

JOIN_S = 300.0
"""Seconds in which all workers must have come."""

EXCHANGE_S = 600.0
"""Seconds that a collective operation may take, once all workers have come to it."""

STALL_S = 1800.0
"""Seconds after which a worker waits no longer for others that make no progress."""

LEAVE_S = 30.0
"""Seconds that the leader waits for the others to leave before it ends."""

_PAUSES_S = (0.001, 0.25)
"""Shortest and longest pause between two looks at the store."""

_TRACEBACK = 20_000
"""Characters of a traceback that travel."""

_FIX = "see what the other workers printed; all must be started by the same torchrun command"


class Dismissed(Exception):
    """The leader has ended the work."""


class WorkerBug(Exception):
    """A worker other than the leader came upon an error that is not the user's."""


class TorchWorkers:
    """The workers of one command; see `workers.Workers`.

    Args:
        store: where all workers meet.
        place: of this worker.
    """

    def __init__(self, store: Store, place: Place) -> None:
        self._store = store
        self._place = place
        self._steps = self._counters = self._orders = 0
        self._device: torch.device | None = None

    @property
    def place(self) -> Place:
        """Where this worker stands."""
        return self._place

    def assign(self, order: Order) -> None:
        """Ask the other workers for help; only the leader does."""
        with _lost_as_problem():
            self._orders += 1
            self._store.set(f"order/{self._orders}", json.dumps(order))

    def next_order(self) -> dict[str, Any] | int:
        """Wait for the leader's next order; a number is the exit status to end with."""
        self._orders += 1
        key = f"order/{self._orders}"
        with _lost_as_problem():
            _wait_until(lambda: self._store.check([key]) or self._store.check(["exit"]))
            if self._store.check(["exit"]):
                return int(self._store.get("exit"))
            return json.loads(self._store.get(key))

    def counter(self) -> Counter:
        """A counter that starts at 0 and that all workers share.

        Counting also looks whether the work goes on: it raises what `exchange` does.
        """
        self._counters += 1
        key = f"counter/{self._counters}"

        def add(amount: int) -> int:
            with _lost_as_problem():
                self._look_around()
                self._store.add("beats", 1)
                return self._store.add(key, amount)

        return add

    def connect(self, provider: str) -> None:
        """Open the process group that suits an execution provider, once."""
        import torch.distributed as dist

        if self._device is not None:
            return
        self._gather()
        backend, self._device = _backend(provider, self._place)
        with _lost_as_problem():
            dist.init_process_group(
                backend,
                store=dist.PrefixStore("group", self._store),
                rank=self._place.rank,
                world_size=self._place.count,
                timeout=timedelta(seconds=EXCHANGE_S),
            )

    def exchange(self, content: bytes) -> list[bytes]:
        """Give every worker what each of them has; returns it by rank.

        Raises:
            QuantflowError: what stopped another worker, where this one is the leader; QF605 when
                workers are lost or make no progress.
            WorkerBug: likewise, for an error that is not the user's.
            Dismissed: the leader has ended the work.
        """
        import torch
        import torch.distributed as dist

        self._gather()
        with _lost_as_problem():
            size = torch.tensor([len(content)], dtype=torch.int64, device=self._device)
            sizes = [torch.zeros_like(size) for _ in range(self._place.count)]
            dist.all_gather(sizes, size)
            lengths = [int(x) for x in sizes]
            # All parts of a collective operation have one size.
            mine = torch.zeros(max(lengths), dtype=torch.uint8)
            if content:
                mine[: len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            mine = mine.to(size.device)
            parts = [torch.empty_like(mine) for _ in lengths]
            dist.all_gather(parts, mine)
            pairs = zip(parts, lengths, strict=True)
            return [part[:length].cpu().numpy().tobytes() for part, length in pairs]

    def report(self, error: BaseException) -> None:
        """Tell the leader what stopped this worker."""
        failure: dict[str, Any] = {"bug": f"{type(error).__name__}: {error}"}
        if isinstance(error, QuantflowError):
            failure = {"problems": [asdict(problem) for problem in error.problems]}
        else:
            failure["traceback"] = "".join(traceback.format_exception(error))[-_TRACEBACK:]
        with _lost_as_problem():
            self._store.set(f"failure/{self._place.rank}", json.dumps(failure))
            self._store.add("failures", 1)

    def dismiss(self, code: int) -> None:
        """End the work of all others with an exit status, and wait until they have left."""
        with _lost_as_problem():
            self._store.set("exit", str(code))
            end = time.monotonic() + LEAVE_S
            others = self._place.count - 1
            _wait_until(lambda: self._store.add("left", 0) >= others or time.monotonic() > end)
        self._close()

    def leave(self) -> None:
        """Go after having been dismissed."""
        self._close()
        with _lost_as_problem():
            self._store.add("left", 1)

    def _close(self) -> None:
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group()

    def _gather(self) -> None:
        """Wait until all workers have come to this point."""
        self._steps += 1
        key = f"step/{self._steps}"
        seen, since = -1, time.monotonic()

        def all_here() -> bool:
            nonlocal seen, since
            if self._store.add(key, 0) == self._place.count:
                return True
            self._look_around()
            beats = self._store.add("beats", 0)
            if beats != seen:
                seen, since = beats, time.monotonic()
            elif time.monotonic() - since > STALL_S:
                what = f"other workers have made no progress for {STALL_S / 60:.0f} minutes"
                fail("QF605", what, where=_name(self._place.rank), fix=_FIX)
            return False

        with _lost_as_problem():
            self._store.add(key, 1)
            self._store.add("beats", 1)
            _wait_until(all_here)

    def _look_around(self) -> None:
        """Raise what stopped another worker, or that the leader has ended the work."""
        if self._store.check(["exit"]):
            raise Dismissed
        if self._place.rank or not self._store.add("failures", 0):
            return
        for rank in range(1, self._place.count):
            if self._store.check([f"failure/{rank}"]):
                raise _failure(rank, json.loads(self._store.get(f"failure/{rank}")))


def join(place: Place) -> TorchWorkers:
    """Meet the other workers, where the launcher's environment variables say.

    Raises:
        QuantflowError: QF605 when they do not all come.
    """
    from torch.distributed import rendezvous

    timeout = timedelta(seconds=JOIN_S)
    try:
        store, _, _ = next(iter(rendezvous("env://", place.rank, place.count, timeout=timeout)))
    except (RuntimeError, ValueError) as error:
        fail(
            "QF605",
            f"the {place.count} workers do not meet: {_first_line(error)}",
            where=_name(place.rank),
            fix="start all of them by torchrun, or unset WORLD_SIZE and RANK to work alone",
        )
    return TorchWorkers(store, place)


def _backend(provider: str, place: Place) -> tuple[str, torch.device]:
    """Backend and device of the exchange: the provider's, where torch has it and devices suffice.

    gloo moves what lies in host memory, which statistics do, so it serves every provider.
    """
    import torch
    import torch.distributed as dist

    if provider == "cuda" and dist.is_nccl_available():
        if torch.cuda.device_count() >= place.local_count:
            device = torch.device("cuda", place.local_rank)
            torch.cuda.set_device(device)
            return "nccl", device
    elif provider == "cann" and _has_torch_npu():
        device = torch.device("npu", place.local_rank)
        torch.get_device_module("npu").set_device(device)
        return "hccl", device
    return "gloo", torch.device("cpu")


def _has_torch_npu() -> bool:
    from importlib import import_module

    try:  # importing it is what makes torch know the device and hccl
        import_module("torch_npu")
    except ImportError:
        return False
    return True


def _failure(rank: int, failure: dict[str, Any]) -> Exception:
    """The exception that stands for what another worker reported."""
    if "problems" in failure:
        problems = [Problem(**problem) for problem in failure["problems"]]
        return QuantflowError(
            Problem(p.code, p.what, f"{_name(rank)}{': ' * bool(p.where)}{p.where}", p.fix)
            for p in problems
        )
    bug = WorkerBug(f"{_name(rank)}: {failure['bug']}")
    bug.add_note(failure["traceback"])
    return bug


def _wait_until(ready: Callable[[], bool]) -> None:
    pause, longest = _PAUSES_S
    while not ready():
        time.sleep(pause)
        pause = min(pause * 1.25, longest)


@contextmanager
def _lost_as_problem() -> Generator[None]:
    """Turn what torch raises when a worker is gone into QF605."""
    try:
        yield
    except RuntimeError as error:
        fail("QF605", f"a worker is lost: {_first_line(error)}", fix=_FIX)


def _name(rank: int) -> str:
    return f"worker {rank}"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
