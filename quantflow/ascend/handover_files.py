"""The two files that `convert.py` works by: conversions.json and result.json.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .om_check import file_sha256, om_problem
from .run_atc import om_candidates

PLAN = "conversions.json"
RESULT = "result.json"
FORMAT = 1


def read_plan(here: Path) -> dict[str, Any]:
    """What is to be converted, and how."""
    return json.loads((here / PLAN).read_text(encoding="utf-8"))


def changed_files(here: Path, entry: dict[str, Any]) -> list[str]:
    """Files of a conversion that are missing, or not the ones that it was planned with."""
    return [
        name
        for name, digest in entry["files"].items()
        if not (here / name).is_file() or file_sha256(here / name) != digest
    ]


def read_rows(here: Path) -> list[dict[str, Any]]:
    """What an earlier run came to; nothing where there is none, or none that can be read."""
    try:
        result: dict[str, Any] = json.loads((here / RESULT).read_text(encoding="utf-8"))
        rows: list[dict[str, Any]] = result["conversions"] if result["format"] == FORMAT else []
        return [row for row in rows if isinstance(row.get("name"), str)]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def is_done(here: Path, row: dict[str, Any], soc_version: str) -> bool:
    """Whether a conversion was verified, and its .om file is still what it was."""
    om = row.get("om")
    if row.get("status") != "converted" or not isinstance(om, str):
        return False
    path = here / om
    return (
        path in om_candidates(here / row["name"])
        and path.is_file()
        and not path.is_symlink()
        and path.stat().st_size == row.get("size")
        and not om_problem(path, soc_version)
        and file_sha256(path) == row.get("sha256")
    )


def write_result(
    here: Path, exit_code: int, plan: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    """Write result.json: in full, or not at all."""
    result = {
        "format": FORMAT,
        "exit_code": exit_code,
        "soc_version": plan["soc_version"],
        "conversions": rows,
    }
    text = json.dumps(result, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    half = here / (RESULT + ".half")
    half.write_text(text, encoding="utf-8")
    half.replace(here / RESULT)
