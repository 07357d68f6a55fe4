"""What the linter says of files as such, of float models, and beside the errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantflow.target.chip_rules import chip_findings
from quantflow.target.dialect import LintFinding
from quantflow.target.dtype_files import dtype_findings, unmatched_lines
from quantflow.target.lint import lint
from quantflow.target.lint_notes import lint_notes
from quantflow.target.proto_rules import proto_findings

from .deploy_models import deploy_model, deq_scale, quant

Edit = Callable[[onnx.ModelProto], None]

# --- the file itself ---------------------------------------------------------------------------


def relu_model() -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "w"], ["a"], name="add"),
            helper.make_node("Relu", ["a"], ["y"], name="relu"),
        ],
        "g",
        [value("x", TensorProto.FLOAT, [2, 4])],
        [value("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(np.ones((2, 4), np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def second_writer(model: onnx.ModelProto) -> None:
    model.graph.node[1].output[0] = "a"


def writes_a_constant(model: onnx.ModelProto) -> None:
    model.graph.node[0].output[0] = "w"


def constant_twice(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def input_twice(model: onnx.ModelProto) -> None:
    model.graph.input.append(model.graph.input[0])


def output_twice(model: onnx.ModelProto) -> None:
    model.graph.output.append(model.graph.output[0])


def input_without_name(model: onnx.ModelProto) -> None:
    model.graph.input[0].name = ""


def second_import(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("ai.onnx", 17))


def negative_shape(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = -2


def shape_too_large(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 2**40


def nothing_left(model: onnx.ModelProto) -> None:
    model.graph.Clear()


def shadowed_in_a_branch(model: onnx.ModelProto) -> None:
    out = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])]
    body = helper.make_graph([helper.make_node("Relu", ["w"], ["x"], name="r")], "b", [], out)
    model.graph.node.append(
        helper.make_node("If", ["c"], ["z"], name="if", then_branch=body, else_branch=body)
    )


@pytest.mark.parametrize(
    ("edit", "rule", "where"),
    [
        (second_writer, "value-names", "a"),
        (writes_a_constant, "value-names", "w"),
        (constant_twice, "value-names", "w"),
        (input_twice, "value-names", "x"),
        (output_twice, "value-names", "y"),
        (input_without_name, "value-names", "g"),
        (shadowed_in_a_branch, "value-names", "x"),
        (second_import, "opset", "ai.onnx"),
        (negative_shape, "initializers", "w"),
        (shape_too_large, "initializers", "w"),
        (nothing_left, "graph", ""),
    ],
)
def test_what_an_in_memory_model_would_hide_is_found_in_the_file(
    edit: Edit, rule: str, where: str
) -> None:
    model = relu_model()
    assert list(proto_findings(model)) == []
    edit(model)
    found = [x for x in proto_findings(model) if (x.rule, x.where) == (rule, where)]
    assert found and all(x.level == "error" and x.what and x.fix for x in found)


def test_an_initializer_of_an_input_is_its_default_and_no_second_value() -> None:
    model = relu_model()
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 4]))
    assert list(proto_findings(model)) == []
    constant_twice(model)
    assert [x.where for x in proto_findings(model)] == ["w"]


# --- float models ------------------------------------------------------------------------------


def levels(found: list[LintFinding]) -> set[str]:
    return {finding.level for finding in found}


def test_a_float_model_is_clean_and_said_to_have_no_int8_layers() -> None:
    model = ir.from_proto(relu_model())
    assert lint(model, "2026") == []
    (note,) = lint_notes(model)
    assert note.level == "info" and "no INT8 layers" in note.what


def test_free_dimensions_of_a_float_model_are_a_note_and_of_an_int8_model_an_error() -> None:
    for proto, level in ((relu_model(), "info"), (deploy_model(), "error")):
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        model = ir.from_proto(proto)
        found = [*lint(model, "2026"), *lint_notes(model)]
        assert [x.level for x in found if x.rule == "static-shapes"] == [level]


def test_nodes_without_a_name_are_a_warning_in_a_float_model() -> None:
    model = relu_model()
    model.graph.node[0].name = ""
    assert levels(lint(ir.from_proto(model), "2026")) == {"warning"}


def test_axes_as_an_attribute_where_they_are_an_input_are_an_error() -> None:
    # atc would drop them and reduce over everything.
    model = relu_model()
    mean = helper.make_node("ReduceMean", ["a"], ["m"], name="mean", axes=[1])
    model.graph.node.append(mean)
    (found,) = lint(ir.from_proto(model), "2026")
    assert (found.rule, found.where) == ("op-attributes", "mean") and "'axes'" in found.what
    model.opset_import[0].version = 17
    assert lint(ir.from_proto(model), "2026") == []


def test_a_node_is_called_by_its_module_too() -> None:
    model = deploy_model()
    scopes = "['', 'encoder', 'encoder.layer.0.output.dense', 'linear_3']"
    model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    next(x for x in model.graph.node[0].attribute if x.name == "scale").f = 2.0**40
    (found,) = [x for x in lint(ir.from_proto(model), "2026") if x.rule == "quant-attributes"]
    assert found.where == "q (encoder.layer.0.output.dense)"


@pytest.mark.parametrize("scopes", ["not python", "[", "{'a': 1}", "[1, 2, 3]", "['x']"])
def test_scopes_that_are_none_are_no_reason_to_stop(scopes: str) -> None:
    model = deploy_model()
    model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    assert lint(ir.from_proto(model), "2026") == []


# --- notes -------------------------------------------------------------------------------------


def test_int8_layers_are_counted_by_kind() -> None:
    first = lint_notes(ir.from_proto(deploy_model()))[0]
    assert "2 INT8 layers: 1 Gemm, 1 MatMul" in first.what and "dynamic_dims" in first.fix


def test_the_loss_of_scales_that_are_read_as_fp19_is_told() -> None:
    # FP19 keeps 10 of 23 mantissa bits: 1 + 2^-11 loses 2^-11 of itself, 0.5 and 0.25 nothing.
    scales = deq_scale([1 + 2.0**-11, 0.5, 0.25])
    model = ir.from_proto(deploy_model(s=scales))
    (note,) = [x for x in lint_notes(model) if x.rule == "fp19-scales"]
    assert "1 of 4" in note.what and f"{2.0**-11 / (1 + 2.0**-11):.2g}" in note.what
    assert [x.rule for x in lint_notes(ir.from_proto(deploy_model()))] == ["int8-layers"]


# --- MatMul of two variables -------------------------------------------------------------------


def pair_model(offset: float = 0.0, scales: Any = (0.5,)) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            quant("qa", "a", "aq", offset=offset),
            quant("qb", "b", "bq", offset=0.0),
            helper.make_node("MatMul", ["aq", "bq"], ["m"], name="scores"),
            helper.make_node("AscendDequant", ["m", "s"], ["y"], name="dq", dtype=0),
        ],
        "pair",
        [value("a", TensorProto.FLOAT, [2, 3, 4]), value("b", TensorProto.FLOAT, [2, 4, 5])],
        [value("y", TensorProto.FLOAT, [2, 3, 5])],
        [numpy_helper.from_array(deq_scale(scales), "s")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)


def test_a_product_of_two_variables_is_fine_without_offsets() -> None:
    assert lint(ir.from_proto(pair_model()), "8.0") == []
    (found,) = lint(ir.from_proto(pair_model(offset=1.0)), "8.0")
    assert (found.rule, found.where, found.level) == ("quant-pairs", "qa", "error")
    (found,) = lint(ir.from_proto(pair_model(scales=[0.5, 0.25])), "8.0")
    assert found.rule == "dequant-scales"


@pytest.mark.parametrize(
    ("chip", "said"),
    [
        ("", True), ("Ascend310P3", True), ("Ascend910B", True), ("Ascend910A", True),
        ("Ascend910B4-1", False), ("Ascend910_9391", False), ("Ascend310B1", False),
    ],
)  # fmt: skip
def test_chips_that_have_no_use_for_such_products_are_told(chip: str, said: bool) -> None:
    found = list(chip_findings(ir.from_proto(pair_model()), chip))
    assert [x.level for x in found] == ["warning"] * said
    assert list(chip_findings(ir.from_proto(deploy_model()), chip)) == []


# --- convolutions ------------------------------------------------------------------------------


def conv(op_type: str, weight: tuple[int, ...], channels: int, **attributes: Any) -> list[str]:
    dims = [1, channels, *[8] * (len(weight) - 2)]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            quant("q", "x", "xq"),
            helper.make_node(op_type, ["xq", "w"], ["c"], name="conv", **attributes),
            helper.make_node("AscendDequant", ["c", "s"], ["y"], name="dq", dtype=0),
        ],
        "conv",
        [value("x", TensorProto.FLOAT, dims), ],
        [value("y", TensorProto.FLOAT, dims)],
        [
            numpy_helper.from_array(np.ones(weight, np.int8), "w"),
            numpy_helper.from_array(deq_scale([0.5]), "s"),
        ],
        value_info=[value("xq", TensorProto.INT8, dims)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    return [finding.rule for finding in lint(ir.from_proto(model), "8.0")]


@pytest.mark.parametrize(
    ("op_type", "weight", "channels", "attributes"),
    [
        ("Conv", (6, 4, 3), 4, {}),
        ("Conv", (6, 4, 3, 3), 4, {"dilations": [2, 2]}),
        ("Conv", (6, 4, 3, 3, 3), 4, {}),
        ("Conv", (4, 1, 3, 3), 4, {"group": 4}),
        ("ConvTranspose", (4, 3, 3, 3), 4, {"group": 2, "strides": [2, 2]}),
    ],
)
def test_convolutions_of_any_kind_are_in_the_dialect(
    op_type: str, weight: tuple[int, ...], channels: int, attributes: dict[str, Any]
) -> None:
    assert conv(op_type, weight, channels, **attributes) == []


@pytest.mark.parametrize(
    ("op_type", "weight", "channels", "attributes"),
    [
        ("Conv", (6, 4, 3, 3), 8, {}),  # for 4 channels
        ("Conv", (6, 4, 3, 3), 16, {"group": 4}),  # 6 filters in 4 groups
        ("Conv", (6, 4), 4, {}),
        ("Conv", (6, 4, 1, 1, 1, 1), 4, {}),
        ("Conv", (6, 4, 3, 3), 4, {"group": 0}),
        ("ConvTranspose", (4, 3, 3, 3), 3, {}),
    ],
)
def test_filters_that_do_not_fit_are_refused(
    op_type: str, weight: tuple[int, ...], channels: int, attributes: dict[str, Any]
) -> None:
    assert "layer-weights" in conv(op_type, weight, channels, **attributes)


@pytest.mark.parametrize("weight", [(4, 6, 3), (4, 6, 3, 3, 3)])
def test_transposed_convolutions_have_4d_filters(weight: tuple[int, ...]) -> None:
    assert conv("ConvTranspose", weight, 4) == ["layer-attributes"]


# --- files that name nodes ---------------------------------------------------------------------


def test_lines_that_name_nothing_after_the_parser_are_found() -> None:
    # C43: Gemm X becomes X_MatMulV2 and X_add, a MatMul keeps its name, Relu its type.
    model = ir.from_proto(deploy_model())
    text = "gemm\ngemm_MatMulV2\nmm\n\nrelu\nOpType::Relu\nOpType::MatMul\nOpType::BatchMatMulV2\n"
    assert unmatched_lines(model, text) == ["gemm", "OpType::MatMul"]


def test_lines_with_types_are_taken_by_their_subject() -> None:
    model = ir.from_proto(deploy_model())
    text = (
        "relu::InputDtype:float32,OutputDtype:float32\n"
        "rule::InputDtype:float32,OutputDtype:float32\n"
        "OpType::Relu:InputDtype:float16,OutputDtype:float16\n"
        "OpType::Div:InputDtype:float16,OutputDtype:float16\n"
    )
    found = list(dtype_findings(model, text, "mine.txt"))
    assert [x.level for x in found] == ["error", "error"]
    assert "rule::" in found[0].what and "OpType::Div" in found[1].what
    assert {x.where for x in found} == {"mine.txt"}
