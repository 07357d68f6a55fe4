"""Taking back what `convert.py` made of the hand-over folder on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from quantflow.artifacts.om_record import Conversion, Finding, OmResult
from quantflow.artifacts.receive import read_bounded
from quantflow.ascend.handover_files import RESULT
from quantflow.ascend.planned import PlannedConversion
from quantflow.ascend.take_over import (
    LONGEST_REASON,
    as_claimed,
    same_conversion,
    take_log,
    take_over,
)
from quantflow.errors import QuantflowError, fail
from quantflow.printable import printable

LARGEST_RESULT: Final = 16 << 20
"""Bytes of a result.json that are read."""

_AGAIN: Final = "copy 50_om as it is now to that machine, and run convert.py there"


class Collected:
    """The result of another machine: checked against this run, and never trusted.

    Attributes:
        findings: what does not agree.
        agreed: names of conversions that are of this run, whatever came of them.
    """

    def __init__(self, directory: Path, chip: str) -> None:
        """Read `result.json` of a folder.

        Args:
            directory: the folder in which convert.py ran.
            chip: of this run.

        Raises:
            QuantflowError: QF411 when it cannot be read, QF412 when it is for another chip.
        """
        self.findings: list[Finding] = []
        self.agreed: list[str] = []
        self._directory, self._chip = directory, chip
        result = _read(directory)
        if result.soc_version != chip:
            what = f"it was converted for {printable(result.soc_version)}, and this run is {chip}"
            fail("QF412", what, where=str(directory / RESULT), fix=_AGAIN)
        self._rows = {row.name: row for row in result.conversions}

    def take(self, planned: PlannedConversion, folder: Path) -> Conversion | None:
        """What came of a conversion; None where nothing was tried, or of something else."""
        row = self._rows.get(planned.name)
        if row is None or (row.status != "converted" and not row.digest):
            return None
        if not same_conversion(row, planned):
            what = "QF412 its result is of other files, or of other arguments of atc"
            self.findings.append(_finding(what, planned, _AGAIN))
            return None
        self.agreed.append(planned.name)
        if row.status == "converted":
            try:
                taken = take_over(self._directory, row, planned, folder, self._chip)
            except QuantflowError as error:
                problem = error.problems[0]
                what = f"{problem.code} {problem.what}"
                self.findings.append(_finding(what, planned, problem.fix))
                return self._failed(row, planned, what, folder)
            return taken.model_copy(update={"elsewhere": as_claimed(row.elsewhere)})
        if row.status == "failed":
            return self._failed(row, planned, printable(row.reason, LONGEST_REASON), folder)
        return None

    def require_agreement(self) -> None:
        """Refuse a result of which nothing is of this run.

        Raises:
            QuantflowError: QF412.
        """
        if not self.agreed:
            what = "nothing in it is of the models of this run"
            fail("QF412", what, where=str(self._directory / RESULT), fix=_AGAIN)

    def _failed(
        self, row: Conversion, planned: PlannedConversion, reason: str, folder: Path
    ) -> Conversion:
        return planned.came_to(printable(row.command[0]), "failed", reason).model_copy(
            update={
                "log": take_log(self._directory, planned.name, folder),
                "atc_version": printable(row.atc_version),
                "elsewhere": as_claimed(row.elsewhere),
            }
        )


def _read(directory: Path) -> OmResult:
    where, fix = str(directory / RESULT), "name the folder in which convert.py was run"
    try:
        return OmResult.model_validate_json(read_bounded(directory, RESULT, LARGEST_RESULT))
    except OSError as error:
        fail("QF411", f"{RESULT} cannot be read: {error.strerror}", where=where, fix=fix)
    except ValidationError as error:
        first = error.errors()[0]
        key = printable(".".join(map(str, first["loc"])) or "conversions")
        what = f"{RESULT} is not what convert.py writes: {key}: {printable(first['msg'])}"
        fail("QF411", what, where=where, fix=fix)


def _finding(what: str, planned: PlannedConversion, fix: str) -> Finding:
    return Finding(level="error", what=what, where=planned.name, fix=fix)
