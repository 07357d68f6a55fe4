"""Signals that end the work: the first one gently, any further one at once.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, the end that a scheduler asks for, and a terminal that is closed."""


class Stop:
    """What work in other threads looks at; plain fields, since a signal's handler writes them.

    Attributes:
        asked: work is to end.
        now: without a grace period.
    """

    def __init__(self) -> None:
        self.asked = False
        self.now = False


@contextmanager
def ended_by_signals(stop: Stop) -> Generator[None]:
    """Let signals end the work: the first raises KeyboardInterrupt, further ones set `stop.now`.

    None is raised while work ends, so that it is waited for. Only in the main thread; signals that
    are ignored, as under nohup, stay so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}

    def handle(number: int, frame: Any) -> None:
        if stop.asked:
            stop.now = True
            return
        stop.asked = True
        former: Callable[[int, Any], object] | None = before.get(number)
        if callable(former):
            former(number, frame)
        raise KeyboardInterrupt

    for number in ENDING:
        former = signal.getsignal(number)
        if former not in (signal.SIG_IGN, None):
            before[number] = former
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
    if stop.now:  # it came when all was done
        raise KeyboardInterrupt
