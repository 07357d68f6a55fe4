"""What torch prints and raises, cut down to what a reader needs."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from typing import Any


def first_lines(error: Exception, limit: int = 6) -> str:
    """Type and first lines of the error that another one was raised for."""
    cause = error
    while cause.__cause__ is not None and isinstance(cause.__cause__, Exception):
        cause = cause.__cause__
    lines = [line for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: " + "\n    ".join(lines[:limit])


@contextlib.contextmanager
def silence() -> Any:
    """Keep what torch prints, logs and warns of off the terminal."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
