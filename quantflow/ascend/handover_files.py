"""What `convert.py` remembers: result.json, and that nobody else works in the folder.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .handover_plan import FORMAT, Unusable, as_fields, as_list, read_json
from .om_check import changed_since, om_problem
from .run_atc import om_candidates

RESULT = "result.json"
LOCK = ".convert.lock"

_TEXTS = ("reason", "log", "atc_version")


@contextmanager
def locked(here: Path) -> Generator[None]:
    """Hold the folder. A file system that knows no locks holds nobody up.

    Raises:
        Unusable: when another process has it.
        OSError: when nothing can be written to it.
    """
    handle = os.open(str(here / LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise Unusable("another convert.py works in this folder; wait for it") from None
    except OSError:
        pass
    try:
        yield
    finally:
        os.close(handle)


def read_rows(here: Path) -> dict[str, dict[str, Any]]:
    """What an earlier run came to, by name; nothing where none is, or none that can be read."""
    try:
        result = read_json(here / RESULT)
    except (OSError, ValueError):
        return {}
    if as_fields(result).get("format") != FORMAT:
        return {}
    rows = map(as_fields, as_list(as_fields(result).get("conversions")))
    return {row["name"]: row for row in rows if isinstance(row.get("name"), str)}


def kept(
    here: Path, entry: dict[str, Any], row: dict[str, Any] | None, soc_version: str
) -> dict[str, Any]:
    """What of an earlier result still counts: a file that is verified again, or a failure.

    Args:
        here: the folder.
        entry: of conversions.json.
        row: of result.json, with anything in it; None where there is none.
        soc_version: the chip.
    """
    if row is None or row.get("digest") != entry["digest"]:
        return {}
    fields: dict[str, Any] = {key: row[key] for key in _TEXTS if isinstance(row.get(key), str)}
    where = as_fields(row.get("elsewhere"))
    if where and all(isinstance(text, str) for text in where.values()):
        fields["elsewhere"] = where
    if row.get("status") == "failed":
        return dict(fields, status="failed")
    if not _is_done(here, entry["name"], row, soc_version):
        return {}
    file = {key: row[key] for key in ("om", "size", "sha256")}
    return dict(fields, status="converted", reason="", **file)


def _is_done(here: Path, name: str, row: dict[str, Any], soc_version: str) -> bool:
    """Whether a conversion was verified, and its .om file is still what it was."""
    om, size = row.get("om"), row.get("size")
    if row.get("status") != "converted" or type(size) is not int:
        return False
    if om not in [path.name for path in om_candidates(here / name)]:
        return False
    same = not changed_since(here / om, size, row.get("sha256"))
    return same and not om_problem(here / om, soc_version)


def write_result(
    here: Path, exit_code: int, plan: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    """Write result.json: in full, or not at all.

    Raises:
        OSError: when it cannot be written.
    """
    result = {
        "format": FORMAT,
        "exit_code": exit_code,
        "soc_version": plan["soc_version"],
        "conversions": rows,
    }
    text = json.dumps(result, indent=1, sort_keys=True) + "\n"
    handle, name = tempfile.mkstemp(dir=str(here), prefix="." + RESULT + ".")
    half = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode())
        half.chmod(0o644)
        half.replace(here / RESULT)
    except BaseException:
        half.unlink()
        raise
