"""Taking over an .om file that was made before, here or elsewhere: only after it was verified."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quantflow.artifacts.om_record import Conversion, Elsewhere
from quantflow.artifacts.receive import received
from quantflow.ascend.convert_one import log_name
from quantflow.ascend.judge_om import om_file_problem
from quantflow.ascend.planned import PlannedConversion
from quantflow.ascend.run_atc import om_candidates
from quantflow.errors import fail
from quantflow.printable import printable

LARGEST_LOG: Final = 4 << 20
"""Bytes of a log that are taken over."""
LONGEST_REASON: Final = 2000


def same_conversion(row: Conversion, planned: PlannedConversion) -> bool:
    """Whether a result is that of the very conversion: same files, arguments and chip."""
    return (
        row.name == planned.name
        and row.digest == planned.digest
        and row.kind == planned.wanted.kind
        and row.command[1:] == planned.arguments
    )


def take_over(
    source: Path, row: Conversion, planned: PlannedConversion, folder: Path, chip: str
) -> Conversion:
    """Copy the .om file of a conversion, and its log, into the folder.

    Args:
        source: the folder that it lies in.
        row: what is said of it there.
        planned: the same conversion here, see `same_conversion`.
        folder: where it goes.
        chip: that it must be for.

    Raises:
        QuantflowError: QF703 when the file is not what `row` says, or no valid .om file.
    """
    om = row.om or ""
    if om not in [path.name for path in om_candidates(Path(planned.name))]:
        _refuse(planned.name, f"{printable(om)!r} is not what atc calls its file")
    size = row.size or 0
    try:
        with received(source, om, folder / om, size + 1) as (copy, sha256):
            found = copy.stat().st_size
            if found != size:
                more = "more" if found > size else str(found)
                _refuse(om, f"it has {more} bytes, and {size} are announced")
            if sha256 != row.sha256:
                _refuse(om, "its SHA-256 is not the one announced")
            problem = om_file_problem(copy, chip)
            if problem:
                _refuse(om, problem)
    except OSError as error:
        _refuse(om, f"it cannot be taken over: {error.strerror}")
    return planned.came_to(printable(row.command[0]), "converted").model_copy(
        update={
            "om": om,
            "sha256": row.sha256,
            "size": size,
            "log": take_log(source, planned.name, folder),
            "atc_version": printable(row.atc_version),
            "elsewhere": as_claimed(row.elsewhere) if row.elsewhere else None,
        }
    )


def take_log(source: Path, name: str, folder: Path) -> str:
    """Copy a log, or its beginning; its place in the folder, empty where there is none."""
    place = log_name(name)
    try:
        with received(source, place, folder / place, LARGEST_LOG):
            pass
    except OSError:
        return ""
    return place


def as_claimed(elsewhere: Elsewhere | None) -> Elsewhere:
    """What a result says of its machine, fit to be printed."""
    claimed = elsewhere or Elsewhere()
    return Elsewhere(**{name: printable(text) for name, text in claimed.model_dump().items()})


def _refuse(where: str, why: str) -> None:
    fail("QF703", f"the .om file was not taken over: {why}", where=where, fix="convert it again")
