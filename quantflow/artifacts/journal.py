"""A journal: results that cost time, written down one by one, read again after a kill."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any, cast

from quantflow.artifacts.atomic import naming


class Journal:
    """Entries on disk, one JSON object a line.

    Floats are written so that they read back exactly. A line that a kill cut short, or that is not
    as it was written, is dropped with all that follow, from the file as well.

    Args:
        path: the file; made when the first entry is added.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, Any] = {}
        data = path.read_bytes() if path.exists() else b""
        sound = 0
        for line in data.splitlines(keepends=True):
            try:
                entry = cast("dict[str, Any]", json.loads(line))
                key, value = str(entry["key"]), entry["value"]
                sound_line = line.endswith(b"\n") and entry["crc"] == _checksum(key, value)
            except (ValueError, KeyError, TypeError):
                break
            if not sound_line:
                break
            self._entries[key] = value
            sound += len(line)
        if sound < len(data):
            # What is noted next must not be written behind half a line.
            os.truncate(path, sound)

    @property
    def entries(self) -> dict[str, Any]:
        """All that was noted, by key."""
        return dict(self._entries)

    def note(self, key: str, value: Any) -> None:
        """Write an entry and make sure that it is on disk."""
        self._entries[key] = value
        entry = {"key": key, "value": value, "crc": _checksum(key, value)}
        line = json.dumps(entry) + "\n"
        with naming(self._path), self._path.open("ab") as stream:
            stream.write(line.encode())
            stream.flush()
            os.fsync(stream.fileno())


def _checksum(key: str, value: Any) -> int:
    return zlib.crc32(json.dumps([key, value]).encode())
