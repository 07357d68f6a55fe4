"""Converts what is left of the folder's models, and checks in the end what came of all of them.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .at_once import at_once
from .convert_one import Judges, convert_one, not_as_verified, set_aside
from .error_places import error_places, node_finder
from .handover_files import write_result
from .handover_told import Told, shown
from .interrupts import Stop
from .om_check import om_problem

FAILED = 4
"""Exit code that result.json has until all is done."""


def find_atc(name: str) -> str | None:
    """The configured atc; a path that only the other machine has falls back on PATH."""
    found = shutil.which(name) or shutil.which("atc")
    return found and str(Path.cwd() / found)  # it is started in another directory


def convert_all(
    here: Path,
    plan: dict[str, Any],
    atc: str,
    entries: list[dict[str, Any]],
    rows: dict[str, dict[str, Any]],
    parallel: int,
    told: Told,
) -> None:
    """Convert what is left, and write result.json after each one.

    Args:
        here: the folder.
        plan: see `read_plan`.
        atc: its path.
        entries: of the plan, what is left.
        rows: of all conversions, by name; what comes of these is put there.
        parallel: how many at a time.
        told: prints what comes of each.

    Raises:
        OSError: when result.json cannot be written.
    """
    layers: dict[str, str] = plan["layers"]
    judges = Judges(
        partial(om_problem, soc_version=plan["soc_version"]),
        partial(error_places, layers=layers, onnx_node=node_finder(layers, plan["suffixes"])),
    )

    def work(entry: dict[str, Any], on_line: Callable[[str], None], stop: Stop) -> dict[str, Any]:
        print(shown(" ".join([f"{entry['name']}:", atc, *entry["arguments"]])), flush=True)
        started = _now()
        result = convert_one(
            atc,
            entry["name"],
            entry["arguments"],
            files=entry["files"],
            folder=here,
            shown_folder="",
            timeout_s=plan["timeout_s"],
            judges=judges,
            on_line=on_line,
            stop=stop,
        )
        elsewhere = {
            "host": platform.node()[:200],
            "machine": platform.machine()[:200],
            "atc": atc[:1000],
            "started": started,
            "finished": _now(),
        }
        return dict(blank_row(entry, plan), elsewhere=elsewhere, **result._asdict())

    for index, row in at_once(entries, work, parallel, lambda entry, line: None):
        rows[entries[index]["name"]] = row
        told.row(row)
        write_result(here, FAILED, plan, list(rows.values()))


def check_again(here: Path, rows: dict[str, dict[str, Any]], tried: list[dict[str, Any]]) -> None:
    """Count only files that are still the ones that were verified: other runs came after them."""
    for row in rows.values():
        if row["status"] == "converted":
            reason = not_as_verified(here, row["om"], row["size"], row["sha256"])
            if reason:
                row.update(status="failed", reason=reason, om=None, sha256=None, size=None)
    for entry in tried:
        if rows[entry["name"]]["status"] != "converted":
            set_aside(here / entry["name"])


def blank_row(
    entry: dict[str, Any], plan: dict[str, Any], reason: str = "not asked for yet"
) -> dict[str, Any]:
    """A conversion of which nothing came yet."""
    return {
        "name": entry["name"],
        "bucket": entry["bucket"],
        "kind": entry["kind"],
        "status": "not-converted",
        "reason": reason,
        "command": [plan["atc"], *entry["arguments"]],
        "digest": entry["digest"],
        "om": None,
    }


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
