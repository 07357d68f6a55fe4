"""Several pieces of work at once, ended together.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

from .interrupts import Stop, ended_by_signals

Job = TypeVar("Job")
Result = TypeVar("Result")


def at_once(
    jobs: Sequence[Job],
    work: Callable[[Job, Callable[[str], None], Stop], Result],
    parallel: int,
    on_line: Callable[[Job, str], None],
) -> Iterator[tuple[int, Result]]:
    """Index and result of every job, as they are done.

    Args:
        jobs: what is to do.
        work: does one, in a thread: is given it, where to report lines, and what is set when all
            work is to end. An exception of it ends all.
        parallel: how many at a time.
        on_line: is told what jobs report, in the thread of the caller; of lines that come faster
            than it takes them, the last.

    An exception in between and a caller that stops asking end all work before they go on. So do
    signals, see `ended_by_signals`.
    """
    stop = Stop()
    events: SimpleQueue[tuple[int, Future[Result] | None]] = SimpleQueue()
    latest: dict[int, str] = {}
    lock = threading.Lock()

    def start(index: int) -> Future[Result]:
        def report(line: str) -> None:
            with lock:
                waits = index in latest  # one at a time, or a flood would pile up here
                latest[index] = line
            if not waits:
                events.put((index, None))

        def done(future: Future[Result]) -> None:
            events.put((index, future))

        future = pool.submit(work, jobs[index], report, stop)
        future.add_done_callback(done)
        return future

    with ended_by_signals(stop), ThreadPoolExecutor(max_workers=parallel) as pool:
        futures: list[Future[Result]] = []
        try:
            for index in range(len(jobs)):
                futures.append(start(index))
            left = len(jobs)
            while left:
                index, event = events.get()
                if event is None:
                    with lock:
                        line = latest.pop(index)
                    on_line(jobs[index], line)
                    continue
                left -= 1
                yield index, event.result()
        finally:
            stop.asked = True
            for future in futures:
                future.cancel()
