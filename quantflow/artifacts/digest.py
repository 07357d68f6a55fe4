"""Content digests (SHA-256, hexadecimal)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def file_digest(path: Path) -> str:
    """Digest of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


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
