"""Conversions that are done, put aside so that a killed stage does not do them again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from quantflow.artifacts.om_record import Conversion
from quantflow.artifacts.run_directory import FINISHED
from quantflow.ascend.planned import PlannedConversion
from quantflow.ascend.take_over import same_conversion, take_over
from quantflow.errors import QuantflowError


def put_aside(conversion: Conversion, folder: Path) -> None:
    """Keep a converted model, its log and its record where the next attempt finds them.

    Args:
        conversion: as it ended; of one that is not `converted` nothing is kept.
        folder: of the stage, that it was written into.
    """
    if conversion.status != "converted" or conversion.om is None:
        return
    for place in filter(None, (conversion.om, conversion.log)):
        target = folder / FINISHED / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(folder / place, target)  # an .om file can have gigabytes
        except OSError:
            shutil.copyfile(folder / place, target)
    conversion.write(folder / FINISHED / f"{conversion.name}.json")


def take_finished(planned: PlannedConversion, folder: Path, chip: str) -> Conversion | None:
    """What an earlier attempt at this very stage finished, verified again; None where nothing.

    Args:
        planned: the conversion.
        folder: of the stage; the .om file and its log are put there.
        chip: that the file must be for.
    """
    try:
        row = Conversion.read(folder / FINISHED / f"{planned.name}.json")
        if not same_conversion(row, planned):
            return None
        return take_over(folder / FINISHED, row, planned, folder, chip)
    except QuantflowError:  # not there, or damaged: it is converted again
        return None


def remove_finished(folder: Path) -> None:
    """Remove what was put aside: the stage is done."""
    shutil.rmtree(folder / FINISHED, ignore_errors=True)
