"""Reading conversions.json: what `convert.py` is to run, refused where it is not what was written.

Travels with the hand-over folder, so: Python 3.7 and the standard library only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

PLAN = "conversions.json"
FORMAT = 1
LARGEST = 64 << 20
"""Bytes of conversions.json and result.json that are read."""
LONGEST_TIMEOUT_S = 1e8


class Unusable(Exception):
    """Nothing can be done in this folder; the message says why."""


def read_json(path: Path) -> Any:
    """Content of a JSON file.

    Raises:
        OSError: when it cannot be read, ValueError when it is no file, too large or no JSON.
    """
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ValueError("it is no file")
    with path.open("rb") as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST >> 20} MB")
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ValueError("it is damaged") from None


def read_plan(here: Path) -> dict[str, Any]:
    """What is to be converted, and how.

    Raises:
        Unusable: when it is missing, or not what was written.
    """
    plan: dict[str, Any] = {}
    try:
        plan = as_fields(read_json(here / PLAN))
        problem = _problem(plan)
    except OSError as error:
        problem = str(error.strerror)
    except ValueError as error:
        problem = str(error)
    if problem:
        raise Unusable(f"{PLAN} cannot be used: {problem}; copy the folder again")
    return plan


def _problem(fields: dict[str, Any]) -> str:
    """What is not as it was written, or empty."""
    if fields.get("format") != FORMAT:
        return f"it is not of format {FORMAT}"
    timeout = fields.get("timeout_s")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        return "timeout_s is no number"
    if not 0 < timeout < LONGEST_TIMEOUT_S:
        return "timeout_s is out of range"
    if not all(isinstance(fields.get(key), str) for key in ("atc", "soc_version")):
        return "atc or soc_version is no text"
    if not isinstance(fields.get("layers"), dict) or not isinstance(fields.get("suffixes"), list):
        return "layers or suffixes are missing"
    layers = as_fields(fields.get("layers")).values()
    if not all(isinstance(x, str) for x in [*layers, *as_list(fields.get("suffixes"))]):
        return "layers or suffixes are damaged"
    entries = [as_fields(entry) for entry in as_list(fields.get("conversions"))]
    if not entries:
        return "it has no conversions"
    if not all(map(_is_sound, entries)):
        return "a conversion is damaged"
    if len({entry["name"] for entry in entries}) < len(entries):
        return "a name is there twice"
    return ""


def _is_sound(entry: dict[str, Any]) -> bool:
    texts = [entry.get(key) for key in ("name", "bucket", "kind", "digest")]
    words, files = as_list(entry.get("arguments")), as_fields(entry.get("files"))
    if not all(isinstance(text, str) for text in [*texts, *words, *files.values()]):
        return False
    name: str = entry["name"]
    return bool(words and files and name.strip(".")) and not set(name) & {"/", "\0"}


def as_fields(value: Any) -> dict[str, Any]:
    """A JSON object, empty where it is something else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """A JSON array, empty where it is something else."""
    return cast("list[Any]", value) if isinstance(value, list) else []
