"""The chips that atc compiles for, by the name its ``--soc_version`` takes."""

from __future__ import annotations

import re
from typing import Final

from quantflow.errors import did_you_mean, fail

CHIPS: Final = tuple(
    f"Ascend{name}"
    for name in (
        *("310", "310P1", "310P3", "310P5", "310P7", "310B1", "310B2", "310B3", "310B4"),
        *("910A", "910B", "910ProA", "910ProB"),
        *("910B1", "910B2", "910B2C", "910B3", "910B4", "910B4-1"),
        *("910_9391", "910_9392", "910_9381", "910_9382", "910_9372", "910_9362"),
        "035",
    )
)
"""Names that are listed one by one in atc's manual."""

_FAMILY: Final = re.compile(r"Ascend950(PR|DT)_[0-9A-Za-z]+")
"""The 950 generation, whose names carry a suffix per product."""


def check_chip(name: str) -> str:
    """Return `name` when atc knows such a chip.

    Raises:
        QuantflowError: QF110 with the nearest names.
    """
    if not _is_known(name):
        full = f"Ascend{name}"
        fix = f"did you mean {full!r}?" if _is_known(full) else did_you_mean(name, CHIPS)
        fail("QF110", f"atc knows no chip {name!r}", where="target.chip", fix=fix)
    return name


def chip_called(name: str) -> str | None:
    """The chip that npu-smi calls `name`, such as 310P3 for Ascend310P3; None for other words."""
    full = name if name.startswith("Ascend") else f"Ascend{name}"
    return full if _is_known(full) else None


def _is_known(name: str) -> bool:
    return name in CHIPS or _FAMILY.fullmatch(name) is not None
