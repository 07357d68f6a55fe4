"""What `convert.py` prints of conversions: a line each, and no reason twice.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_LOG = "; log: "


def shown(text: str) -> str:
    """The text with what would steer a terminal written as Python escapes it."""
    if text.isprintable():
        return text
    return "".join(x if x.isprintable() else ascii(x)[1:-1] for x in text)


class Told:
    """Remembers what was printed."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._told: dict[str, str] = {}

    def row(self, row: dict[str, Any], more: str = "") -> None:
        """Print what came of a conversion."""
        name = row["name"]
        self._told[name] = row["status"]
        if row["status"] == "converted":
            text = f"{row['om']}{more}"
        else:
            what, log = _parts(row["reason"])
            first = self._reasons.setdefault(what, name)
            text = (what if first == name else f"as {first}") + log
        print(shown(f"{name}: {row['status']}: {text}"), flush=True)

    def rest(self, rows: Sequence[dict[str, Any]]) -> None:
        """Print what was not told yet, or has changed since: those of one reason in one line."""
        groups: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            if self._told.get(row["name"]) != row["status"]:
                text = row["om"] if row["status"] == "converted" else row["reason"]
                groups.setdefault((row["status"], text), []).append(row["name"])
        for (status, text), names in groups.items():
            print(shown(f"{', '.join(names)}: {status}: {text}"), flush=True)


def last_line(rows: Sequence[dict[str, Any]]) -> str:
    """How many were converted, and the first problem in short."""
    left = [row for row in rows if row["status"] != "converted"]
    line = f"{len(rows) - len(left)} of {len(rows)} converted"
    if not left:
        return line
    first = next((row for row in left if row["status"] == "failed"), left[0])
    brief = _parts(first["reason"])[0].partition("; ")[0]
    return shown(f"{line}; first problem: {first['name']}: {brief}")


def _parts(reason: str) -> tuple[str, str]:
    """A reason, and where its log is, which differs from one conversion to the next."""
    what, mark, log = reason.rpartition(_LOG)
    return (what, mark + log) if mark else (reason, "")
