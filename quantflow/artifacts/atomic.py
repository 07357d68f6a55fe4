"""Files that are either there in full or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_LONGEST = 240
"""Bytes of a file's name that a temporary file beside it repeats: file systems take 255."""


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Let errors of a file that is being written name it, as those of a file being opened do."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # of a write that fell short, numpy only says by how much
            error.errno, error.strerror = errno.EIO, str(error)
        if error.filename is None:
            error.filename = str(path)
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to a temporary file beside `path`, flush it to disk and move it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{_start(path.name)}.")
    temporary = Path(name)
    try:
        with naming(path), os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _start(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:_LONGEST])
