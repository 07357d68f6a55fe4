"""Which candidates a set on disk is made of."""

from __future__ import annotations

import json
from pathlib import Path


def drawn(directory: Path, split: str = "calibration") -> list[int]:
    """Numbers of the candidates in a set of the project in `directory`."""
    record = json.loads((directory / "run" / "10_set" / split / "set.json").read_text())
    return [int(sample["id"].split("[")[1].rstrip("]")) for sample in record["samples"]]
