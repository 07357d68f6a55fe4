"""Content digests (SHA-256, hexadecimal)."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

_SETTLED_NS = 2_000_000_000
"""Age of a change from which on another one would show: clocks of file systems are coarse."""

_known: dict[tuple[object, ...], str] = {}
"""Digests of files that have settled, by all that would change with the content."""


def file_digest(path: Path) -> str:
    """Digest of a file's content. A process reads a file that does not change only once."""
    status = path.stat()
    key = (path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    key = (*key, status.st_ctime_ns)  # which nobody can set
    if key not in _known:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if time.time_ns() - status.st_ctime_ns < _SETTLED_NS:
            return digest
        _known[key] = digest
    return _known[key]


def value_digest(value: Any) -> str:
    """Digest of a JSON-like value, independent of the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def path_digest(path: Path) -> str:
    """Digest of a file, or of the names and contents of all files below a directory."""
    if path.is_file():
        return file_digest(path)
    files = sorted(p for p in path.rglob("*") if p.is_file())
    return value_digest([[str(p.relative_to(path)), file_digest(p)] for p in files])
