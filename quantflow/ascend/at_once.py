"""Several pieces of work at once, ended together.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def at_once(
    jobs: Sequence[Job],
    work: Callable[[Job, Callable[[str], None], threading.Event], Result],
    parallel: int,
    on_line: Callable[[Job, str], None],
) -> Iterator[tuple[int, Result]]:
    """Index and result of every job, as they are done.

    Args:
        jobs: what is to do.
        work: does one, in a thread: is given it, where to report lines, and what is set when all
            work is to end. An exception of it ends all.
        parallel: how many at a time.
        on_line: is told what jobs report, in the thread of the caller.

    An exception in between, KeyboardInterrupt among them, and a caller that stops asking end all
    work before they go on.
    """
    stop = threading.Event()
    events: SimpleQueue[tuple[int, str | Future[Result]]] = SimpleQueue()

    def start(index: int) -> Future[Result]:
        def report(line: str) -> None:
            events.put((index, line))

        def done(future: Future[Result]) -> None:
            events.put((index, future))

        future = pool.submit(work, jobs[index], report, stop)
        future.add_done_callback(done)
        return future

    with ThreadPoolExecutor(max_workers=parallel) as pool:
        futures: list[Future[Result]] = []
        try:
            for index in range(len(jobs)):
                futures.append(start(index))
            left = len(jobs)
            while left:
                index, event = events.get()
                if isinstance(event, str):
                    on_line(jobs[index], event)
                    continue
                left -= 1
                yield index, event.result()
        finally:
            stop.set()
            for future in futures:
                future.cancel()
