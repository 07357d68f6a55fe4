"""Whether an .om file counts: complete, and for the chip that it was asked for."""

from __future__ import annotations

from pathlib import Path

from quantflow.ascend.om_file import read_om_header
from quantflow.errors import QuantflowError


def om_file_problem(path: Path, soc_version: str) -> str:
    """What is wrong with an .om file, or empty.

    Args:
        path: of the file.
        soc_version: the chip; one that the file does not name counts as right.
    """
    try:
        header = read_om_header(path)
    except QuantflowError as error:
        return error.problems[0].what
    compiled_for = header.soc_version
    if compiled_for is not None and compiled_for.lower() != soc_version.lower():
        return f"the .om file is for {compiled_for}, not {soc_version}"
    return ""
