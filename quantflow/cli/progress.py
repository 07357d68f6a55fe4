"""Progress on stderr: bars with the time left in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from quantflow.cli.output import remark
from quantflow.progress import DETAIL, Progress, no_progress

LINE_INTERVAL_S = 10.0
"""Seconds between plain lines, but for the ends of pieces of work."""


@contextmanager
def drawing(*, quiet: bool) -> Generator[Progress]:
    """A progress callback that draws while the context is open."""
    if quiet:
        yield no_progress
    elif sys.stderr.isatty():
        with _bars() as progress:
            yield progress
    else:
        yield plain_lines(remark)


def plain_lines(
    write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Progress:
    """A callback that writes a line at the end of each piece of work, and now and then between.

    Args:
        write: given each line.
        clock: seconds.
    """
    current, started, ended, written = "", 0.0, False, clock()

    def progress(label: str, done: int, total: int) -> None:
        nonlocal current, started, ended, written
        now = clock()
        if label.partition(DETAIL)[0] != current:
            current, started, ended = label.partition(DETAIL)[0], now, False
        finished = 0 < total <= done
        # Work whose extent shows on the way may come to an end more than once.
        if now - written >= LINE_INTERVAL_S or (finished and not ended):
            ended, written = ended or finished, now
            write(_line(label, done, total, now - started))

    return progress


def _line(label: str, done: int, total: int, elapsed: float) -> str:
    if not total:
        return f"{label} ..."
    if done >= total:
        return f"{label}: {done}/{total} in {elapsed:.1f} s"
    left = f", about {elapsed / done * (total - done):.0f} s left" if done and elapsed else ""
    return f"{label}: {done}/{total}{left}"


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
            work = label.partition(DETAIL)[0]
            if work != current:  # work is done one piece after the other
                bars.remove_task(task)
                current, task = work, bars.add_task(work, total=total or None)
            bars.update(task, description=label, completed=done, total=total or None)

        yield progress
