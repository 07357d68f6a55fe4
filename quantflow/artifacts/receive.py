"""Taking files out of a folder that came from another machine: plain files only, and no links."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_PART = 1 << 20


@contextmanager
def received(
    folder: Path, place: str, target: Path, most_bytes: int
) -> Generator[tuple[Path, str]]:
    """A copy of a file, and its SHA-256; it becomes `target` when the context ends without error.

    What is judged in between is the copy, so that nobody can change it afterwards.

    Args:
        folder: that it lies in.
        place: below it, with slashes; from us, not from the folder. Nothing on the way may be a
            link.
        target: where it is to go.
        most_bytes: as much is copied at most.

    Raises:
        OSError: when it is missing, a link, no plain file, cannot be copied, or `most_bytes` is
            negative.
    """
    if most_bytes < 0:
        raise OSError(0, "its announced size is negative")
    target.parent.mkdir(parents=True, exist_ok=True)
    with _opened(folder, place) as source:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        copy = Path(name)
        try:
            digest = hashlib.sha256()
            with os.fdopen(handle, "wb") as stream:
                left = most_bytes
                while left and (part := source.read(min(_PART, left))):
                    digest.update(part)
                    stream.write(part)
                    left -= len(part)
                stream.flush()
                os.fsync(stream.fileno())
            yield copy, digest.hexdigest()
            copy.chmod(0o644)
            copy.replace(target)
        finally:
            copy.unlink(missing_ok=True)


def read_bounded(folder: Path, place: str, most_bytes: int) -> bytes:
    """Content of a plain file of a folder.

    Raises:
        OSError: when it is missing, a link, no plain file, larger than that, or cannot be read.
    """
    if most_bytes < 0:
        raise OSError(0, "its announced size is negative")
    with _opened(folder, place) as source:
        content = source.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(0, f"it has more than {most_bytes} bytes")
    return content


@contextmanager
def _opened(folder: Path, place: str) -> Generator[BinaryIO]:
    """A plain file below a folder; what is on the way is opened one by one, without links."""
    *parents, name = place.split("/")
    handles = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        for part in parents:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            handles.append(os.open(part, flags, dir_fd=handles[-1]))
        # A pipe would be waited for, but for the flag.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handles[-1])
        with os.fdopen(file, "rb") as stream:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(0, "it is no plain file")
            yield stream
    finally:
        for handle in handles:
            os.close(handle)
