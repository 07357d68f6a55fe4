"""Which ONNX ops atc has a parser for, by opset and CANN version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final, Literal

Cann = Literal["2026", "8.0"]

LOWEST_OPSET: Final = 11
_CEILING: Final[dict[Cann, int]] = {"2026": 18, "8.0": 16}


def opset_ceiling(cann: Cann) -> int:
    """The highest ai.onnx opset that a model for this CANN version may import.

    The 2026 sources end at 18 for ordinary ops. The documentation of CANN 8.0 registers
    AscendQuant and AscendDequant up to 16 only.
    """
    return _CEILING[cann]


def parser_span(op_type: str, domain: str = "") -> tuple[int, int] | None:
    """First and last opset with a parser for the op type, or None when there is none at all."""
    return _table().get(domain or "ai.onnx", {}).get(op_type)


def supported(op_type: str, opset: int, cann: Cann, domain: str = "") -> bool:
    """Whether atc has a parser for the op type at this opset."""
    return _refusal(op_type, opset, cann, domain) is None


def unsupported_ops(
    op_types: Iterable[str], opset: int, cann: Cann, domain: str = ""
) -> dict[str, str]:
    """The op types that atc would refuse, sorted, each with the reason."""
    reasons = {op_type: _refusal(op_type, opset, cann, domain) for op_type in sorted(set(op_types))}
    return {op_type: reason for op_type, reason in reasons.items() if reason is not None}


def _refusal(op_type: str, opset: int, cann: Cann, domain: str) -> str | None:
    span = parser_span(op_type, domain)
    if span is None:
        return "no parser at any opset"
    first, last = span
    if not domain:
        last = min(last, opset_ceiling(cann))
    if opset < first:
        return f"a parser from opset {first} on"
    if opset > last:
        return f"a parser up to opset {last}"
    return None


@cache
def _table() -> dict[str, dict[str, tuple[int, int]]]:
    text = files("quantflow.target").joinpath("onnx_ops.json").read_text(encoding="utf-8")
    tree = json.loads(text)
    return {
        domain: {op: (first, last) for op, (first, last) in tree[domain].items()}
        for domain in ("ai.onnx", "npu")
    }
