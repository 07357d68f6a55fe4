"""How long the stages of a run took: `timings.json`, apart from all that decides a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

TIMINGS = "timings.json"


_MOST = 1e12
"""Seconds that no stage takes; larger numbers may be beyond float."""


def read_timings(root: Path) -> dict[str, Any]:
    """``seconds`` and time of completion, ``finished``, by stage; empty before anything has run."""
    return {name: entry for name, entry in read_entries(root).items() if _is_timing(entry)}


def read_entries(root: Path) -> dict[str, dict[str, Any]]:
    """What the file holds by stage, without what nobody could print; empty for a damaged one."""
    path = root / TIMINGS
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        found: object = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return {}
    entries = cast(dict[str, Any], found) if isinstance(found, dict) else {}
    return {name: entry for name, entry in entries.items() if name.isprintable() and _flat(entry)}


def _flat(entry: object) -> bool:
    return isinstance(entry, dict) and all(
        isinstance(value, str | int | float) for value in cast(dict[str, object], entry).values()
    )


def _is_timing(entry: dict[str, Any]) -> bool:
    seconds, finished = entry.get("seconds"), entry.get("finished")
    is_time = isinstance(seconds, int | float) and 0 <= seconds < _MOST  # false for NaN
    return is_time and isinstance(finished, str) and finished.isprintable()
