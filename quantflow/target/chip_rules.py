"""Rules that depend on the chip."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from quantflow.target.dialect import LintFinding, is_int8_pair, label, nodes_of

_INT8_PAIRS: Final = re.compile(r"Ascend(910B[1-4].*|910_93\d\d|310B\d)")
"""Chips where a MatMul of two int8 variables is of use: A2, A3 and 310B."""


def chip_findings(model: ir.Model, chip: str) -> Iterator[LintFinding]:
    """What a chip makes nothing of; for no chip in particular, what only some do.

    Args:
        model: the model.
        chip: as atc's ``--soc_version`` takes it, or empty.
    """
    for node in nodes_of(model, "MatMul"):
        if is_int8_pair(node) and not _INT8_PAIRS.fullmatch(chip):
            place = f"not of use on {chip}" if chip else "of use on A2, A3 and 310B chips alone"
            what = f"an INT8 MatMul of two variables is {place}"
            yield LintFinding("warning", "int8-pairs", what, label(node), "leave it in fp16")
