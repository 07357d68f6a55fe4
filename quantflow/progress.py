"""Progress reporting: the library takes a callback, only the command line draws."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many units are done, and how many there are."""

DETAIL = " | "
"""In a label, what follows it may change while the same work goes on."""


def no_progress(label: str, done: int, total: int) -> None:
    """Report nothing."""
