"""Progress on stderr: bars with the time left in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from quantflow.progress import Progress, no_progress

LINE_INTERVAL_S = 10.0
"""Seconds between plain lines on the same piece of work."""


@contextmanager
def drawing(*, quiet: bool) -> Generator[Progress]:
    """A progress callback that draws while the context is open."""
    if quiet:
        yield no_progress
    elif sys.stderr.isatty():
        with _bars() as progress:
            yield progress
    else:
        yield plain_lines(lambda line: print(line, file=sys.stderr, flush=True))


def plain_lines(
    write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Progress:
    """A callback that writes a line when work starts, at its end, and now and then between.

    Args:
        write: given each line.
        clock: seconds.
    """
    current, started, written = "", 0.0, 0.0

    def progress(label: str, done: int, total: int) -> None:
        nonlocal current, started, written
        now = clock()
        if label != current:
            current, started, written = label, now, now
            if not total or done < total:
                write(f"{label} ...")
        elif total and done < total and now - written >= LINE_INTERVAL_S:
            written = now
            write(f"{label}: {done}/{total}{_time_left(now - started, done, total)}")
        if total and done >= total:
            write(f"{label}: {total}/{total} in {now - started:.1f} s")
            current = ""

    return progress


def _time_left(elapsed: float, done: int, total: int) -> str:
    return f", about {elapsed / done * (total - done):.0f} s left" if done else ""


@contextmanager
def _bars() -> Generator[Progress]:
    from rich import progress as rich_progress
    from rich.console import Console

    with rich_progress.Progress(
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(bar_width=30),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TextColumn("left"),
        rich_progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        current, task = "", bars.add_task("", visible=False)

        def progress(label: str, done: int, total: int) -> None:
            nonlocal current, task
            if label != current:  # work is done one piece after the other
                bars.remove_task(task)
                current, task = label, bars.add_task(label, total=total or None)
            bars.update(task, completed=done, total=total or None)

        yield progress
