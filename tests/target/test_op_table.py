"""The op table: what the registrations say, and what the CANN version changes."""

from __future__ import annotations

import pytest

from quantflow.target.op_table import opset_ceiling, parser_span, supported, unsupported_ops


def test_the_ceiling_belongs_to_the_cann_version() -> None:
    assert (opset_ceiling("2026"), opset_ceiling("8.0")) == (18, 16)


@pytest.mark.parametrize(
    ("op_type", "opset", "cann", "expected"),
    [
        ("MatMul", 18, "2026", True),
        ("AscendQuant", 18, "2026", True),
        ("AscendQuant", 17, "8.0", False),
        ("AscendQuant", 16, "8.0", True),
        ("LayerNormalization", 17, "2026", True),
        ("LayerNormalization", 16, "2026", False),
        ("LayerNormalization", 17, "8.0", False),
        ("ReduceL2", 17, "2026", True),
        ("ReduceL2", 18, "2026", False),
        ("Scatter", 12, "2026", False),
        ("QuantizeLinear", 13, "2026", False),
        ("Loop", 13, "2026", False),
        ("Constant", 13, "2026", True),
    ],
)
def test_support_follows_the_registrations(
    op_type: str, opset: int, cann: str, expected: bool
) -> None:
    assert supported(op_type, opset, cann) is expected  # type: ignore[arg-type]


def test_reasons_say_on_which_side_of_the_span_an_opset_lies() -> None:
    reasons = unsupported_ops(["ReduceL2", "MatMul", "Gelu", "LayerNormalization"], 18, "8.0")
    assert list(reasons) == ["Gelu", "LayerNormalization", "MatMul", "ReduceL2"]
    assert reasons["ReduceL2"].endswith("16")
    assert unsupported_ops(["ReduceL2"], 18, "2026")["ReduceL2"].endswith("17")
    assert unsupported_ops(["Mish"], 17, "2026")["Mish"].endswith("18 on")
    assert unsupported_ops(["MatMul"], 18, "2026") == {}


def test_npu_ops_have_a_domain_of_their_own() -> None:
    assert supported("NPUGeluV2", 1, "8.0", "npu")
    assert not supported("NPUGeluV2", 18, "2026")


def test_quantizers_of_the_dialect_reach_to_opset_22() -> None:
    assert parser_span("AscendQuant") == parser_span("AscendDequant") == (8, 22)
