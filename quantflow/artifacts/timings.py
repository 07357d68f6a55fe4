"""How long the stages of a run took: `timings.json`, apart from all that decides a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

TIMINGS = "timings.json"


def read_timings(root: Path) -> dict[str, Any]:
    """``seconds`` and time of completion, ``finished``, by stage; empty before anything has run."""
    try:
        found: object = json.loads((root / TIMINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    entries = cast(dict[str, Any], found) if isinstance(found, dict) else {}
    return {name: entry for name, entry in entries.items() if _is_timing(entry)}


def _is_timing(entry: object) -> bool:
    if not isinstance(entry, dict):
        return False
    given = cast(dict[str, object], entry)
    return isinstance(given.get("seconds"), int | float) and isinstance(given.get("finished"), str)
