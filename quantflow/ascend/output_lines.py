"""Output of a running process, line by line, in bounded memory and a bounded log.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from queue import Empty, Full, Queue
from typing import IO

from .interrupts import Stop

LONGEST_LINE = 65536
"""Characters after which a line is taken apart."""
WAITING_LINES = 200
"""Lines that were read and not looked at yet; beyond them the process has to wait."""
LARGEST_LOG = 64 << 20
"""Bytes of output that are kept, from its beginning."""

_POLL_S = 0.2
_AFTER_END_S = 5.0
"""Seconds for which output is read that others go on with when the process has ended."""


class Stopped(Exception):
    """A run was ended because all of them were."""


@contextlib.contextmanager
def output_log(path: Path) -> Generator[Log]:
    """A log that is written anew.

    Raises:
        OSError: when it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():  # whatever it leads to is no log
        path.unlink()
    with path.open("wb") as stream:
        yield Log(stream)


class Log:
    """Keeps the beginning of the output, and says so where more came."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._left = stream, LARGEST_LOG

    def write(self, line: str) -> None:
        """Add a line."""
        if self._left <= 0:
            return
        data = (line + "\n").encode("utf-8", "replace")
        self._stream.write(data[: self._left])
        self._left -= len(data)
        if self._left <= 0:
            note = f"\n[the output went on; this log keeps its first {LARGEST_LOG} bytes]\n"
            self._stream.write(note.encode())


def lines_until(
    process: subprocess.Popen[str], deadline: float, stop: Stop | None
) -> Iterator[str]:
    """Lines of output until it ends, the process does, or the deadline passes.

    A thread reads, so that a silent process cannot outlive its deadline, and a grandchild that
    keeps the pipe open cannot outlive the process.

    Args:
        process: with its output as text in a pipe.
        deadline: on the monotonic clock, seconds.
        stop: ends it when asked to.

    Raises:
        Stopped: when `stop` was asked for.
    """
    queue: Queue[str | None] = Queue(WAITING_LINES)
    left = threading.Event()
    threading.Thread(target=_read_lines, args=(process, queue, left), daemon=True).start()
    ended: float | None = None
    looked = float("-inf")
    try:
        while time.monotonic() < deadline:
            if stop is not None and stop.asked:
                raise Stopped
            now = time.monotonic()
            if ended is None and now - looked >= _POLL_S:
                looked, ended = now, (now if process.poll() is not None else None)
            if ended is not None and now - ended > _AFTER_END_S:
                return
            try:
                line = queue.get(timeout=_POLL_S)
            except Empty:
                if ended is not None:
                    return
                continue
            if line is None:
                _wait(process, deadline, stop)
                return
            yield line
    finally:
        left.set()


def _wait(process: subprocess.Popen[str], deadline: float, stop: Stop | None) -> None:
    """Wait for a process that says nothing any more."""
    while process.poll() is None and time.monotonic() < deadline:
        if stop is not None and stop.asked:
            raise Stopped
        time.sleep(_POLL_S / 10)


def _read_lines(
    process: subprocess.Popen[str], queue: Queue[str | None], left: threading.Event
) -> None:
    assert process.stdout is not None
    with process.stdout as stream:
        for line in iter(lambda: stream.readline(LONGEST_LINE), ""):
            if not _put(queue, line.rstrip("\r\n"), left):
                return
    _put(queue, None, left)


def _put(queue: Queue[str | None], line: str | None, left: threading.Event) -> bool:
    """Hand a line on; false when nobody is there to take it any more."""
    while not left.is_set():
        with contextlib.suppress(Full):
            queue.put(line, timeout=_POLL_S)
            return True
    return False
