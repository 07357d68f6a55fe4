"""The NPU of this machine, where npu-smi tells it, against the chip that is compiled for."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Final

from quantflow.artifacts.om_record import Finding
from quantflow.ascend.ask_program import ask_program
from quantflow.target.chips import chip_called

_ROW: Final = re.compile(r"^\|\s*\d+\s+(\w[\w-]{0,40})\s*\|", re.MULTILINE)
"""A row of the table of ``npu-smi info``: number and name of an NPU in its first cell."""


def installed_chips(text: str) -> list[str]:
    """The chips in the output of ``npu-smi info``, by the names of ``--soc_version``, sorted.

    Whatever else it holds is passed over.
    """
    found = {chip_called(name) for name in _ROW.findall(text)}
    return sorted(name for name in found if name is not None)


def other_chip_findings(chip: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """A warning where this machine has NPUs and none is the chip that is compiled for.

    Args:
        chip: ``target.chip``.
        environ: environment variables; npu-smi is looked up on their PATH.
    """
    program = shutil.which("npu-smi", path=environ.get("PATH", ""))
    chips = installed_chips(ask_program([program, "info"], environ)) if program else []
    if chips and chip not in chips:
        here = " and ".join(chips)
        what = f"the model is compiled for {chip}, and npu-smi says that this machine has {here}"
        fix = f"set target.chip = {chips[0]!r} if the model is to run here"
        yield Finding(level="warning", what=what, where="target.chip", fix=fix)
