"""Names after atc's parser, forth and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.target.op_table import parser_span
from quantflow.target.parser_renames import ascend_nodes, ascend_types, onnx_node


@pytest.mark.parametrize(
    ("op_type", "opset", "expected"),
    [
        ("Div", 18, [("X", "RealDiv")]),
        ("Softmax", 18, [("X", "SoftmaxV2")]),
        ("MatMul", 18, [("X", "BatchMatMulV2")]),
        ("Where", 18, [("X", "SelectV2")]),
        ("Pow", 18, [("X", "Pow")]),
        ("ReduceMean", 18, [("X_ReduceMean", "ReduceMean")]),
        ("ReduceSum", 13, [("X_ReduceSum", "ReduceSum")]),
        ("Slice", 13, [("X", "StridedSliceV2")]),
        ("Slice", 9, [("X_StridedSliceV2", "StridedSliceV2")]),
        ("Split", 18, []),
        ("QuantizeLinear", 18, []),
    ],
)
def test_known_renames(op_type: str, opset: int, expected: list[tuple[str, str]]) -> None:
    assert ascend_nodes(op_type, "X", opset) == expected


def test_gemm_and_conv_are_expanded() -> None:
    assert {("X_MatMulV2", "MatMulV2"), ("X_add", "Add")} <= set(ascend_nodes("Gemm", "X", 18))
    conv = ascend_nodes("Conv", "X", 18)
    assert ("X_Conv2D", "Conv2D") in conv
    assert ("X", "Conv2D") not in conv


def test_where_nothing_decides_both_names_are_candidates() -> None:
    names = {name for name, _ in ascend_nodes("ReduceMin", "X", 18)}
    assert names == {"X", "X_ReduceMin"}


def test_numbered_names_are_left_out_but_their_types_are_known() -> None:
    assert ascend_nodes("Max", "X", 18) == []
    assert ascend_types("Max", 18) == ("Maximum",)


def test_messages_lead_back_to_the_onnx_node() -> None:
    known = {"encoder.fc", "encoder.fc_add", "max"}
    assert onnx_node("encoder.fc_MatMulV2", known) == "encoder.fc"
    assert onnx_node("encoder.fc_add", known) == "encoder.fc_add"  # a node really called so
    assert onnx_node("encoder.fc_add_add", known) == "encoder.fc_add"
    assert onnx_node("max_Maximum_1", known) == "max"
    assert onnx_node("encoder.fc_Conv7", known) is None
    assert onnx_node("", known) is None


OPS = ["Gemm", "Conv", "Div", "ReduceMean", "LayerNormalization", "Clip", "Gather", "Pad", "TopK"]


@given(st.sampled_from(OPS), st.text("ab_.1", min_size=1, max_size=8), st.integers(8, 18))
def test_every_candidate_leads_back_to_its_node(op_type: str, name: str, opset: int) -> None:
    for ascend_name, _ in ascend_nodes(op_type, name, opset):
        assert onnx_node(ascend_name, {name}) == name


@pytest.mark.parametrize("op_type", OPS)
def test_the_two_tables_know_the_same_ops(op_type: str) -> None:
    assert parser_span(op_type) is not None
    assert ascend_types(op_type, 18)
