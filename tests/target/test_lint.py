"""The linter: a model in the dialect is clean, and every single departure is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from quantflow.target.dialect import LintFinding
from quantflow.target.lint import lint

from .deploy_models import deploy_model, deq_scale, node, quant


def findings(model: onnx.ModelProto, cann: Any = "2026") -> list[LintFinding]:
    return lint(ir.from_proto(model), cann)


def test_a_model_in_the_dialect_is_clean() -> None:
    assert findings(deploy_model()) == []


def test_the_reference_model_is_not_accepted_by_onnx_checker() -> None:
    # The dialect is no standard ONNX; if this ever passes, the linter is superfluous.
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(deploy_model())


def replace_quant(**changes: Any) -> Callable[[onnx.ModelProto], None]:
    return lambda model: model.graph.node[0].CopyFrom(quant("q", "x", "xq", **changes))


def replace_initializer(name: str, array: np.ndarray) -> Callable[[onnx.ModelProto], None]:
    def edit(model: onnx.ModelProto) -> None:
        old = next(tensor for tensor in model.graph.initializer if tensor.name == name)
        old.CopyFrom(numpy_helper.from_array(array, name))

    return edit


def set_attribute(name: str, key: str, value: Any) -> Callable[[onnx.ModelProto], None]:
    def edit(model: onnx.ModelProto) -> None:
        target = node(model, name)
        kept = [attribute for attribute in target.attribute if attribute.name != key]
        del target.attribute[:]
        target.attribute.extend(kept)
        if value is not None:
            target.attribute.append(helper.make_attribute(key, value))

    return edit


def set_input(name: str, index: int, value: str) -> Callable[[onnx.ModelProto], None]:
    def edit(model: onnx.ModelProto) -> None:
        node(model, name).input[index] = value

    return edit


def rename(name: str, new: str) -> Callable[[onnx.ModelProto], None]:
    def edit(model: onnx.ModelProto) -> None:
        node(model, name).name = new

    return edit


def append(*args: Any, at: int | None = None, **kwargs: Any) -> Callable[[onnx.ModelProto], None]:
    def edit(model: onnx.ModelProto) -> None:
        new = helper.make_node(*args, **kwargs)
        model.graph.node.insert(len(model.graph.node) if at is None else at, new)

    return edit


def free_batch(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"


def no_output_shape(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.ClearField("shape")


def import_domain(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def swap_bias(model: onnx.ModelProto) -> None:
    node(model, "add").input[:] = ["b", "m"]


def reverse_nodes(model: onnx.ModelProto) -> None:
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def int32_output(model: onnx.ModelProto) -> None:
    model.graph.output.append(helper.make_tensor_value_info("m", TensorProto.INT32, [2, 3]))


def int8_output(model: onnx.ModelProto) -> None:
    model.graph.output.append(helper.make_tensor_value_info("xq", TensorProto.INT8, [2, 4]))


def weight_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.INT8, [4, 3]))


def int8_weight_of_a_float_layer(model: onnx.ModelProto) -> None:
    node(model, "mm").input[0] = "x"


def quantize_integers(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT32


def unconnected_relu(model: onnx.ModelProto) -> None:
    del node(model, "relu").input[:]


def third_operand(model: onnx.ModelProto) -> None:
    node(model, "add").input.append("b")


high_bits = deq_scale([0.5, 0.25, 0.125]) | np.uint64(1 << 40)

ERRORS: list[tuple[str, str, Callable[[onnx.ModelProto], None]]] = [
    # C40: an attribute of the wrong type is silently read as 0
    ("quant-attributes", "q", replace_quant(offset=-3)),
    ("quant-attributes", "q", replace_quant(scale=10)),
    ("quant-attributes", "q", replace_quant(scale=None)),
    ("quant-attributes", "q", replace_quant(offset=None)),
    ("quant-attributes", "q", replace_quant(dst_type=None)),
    ("quant-attributes", "q", replace_quant(dst_type=2)),
    ("quant-attributes", "q", replace_quant(dst_type="INT4")),
    ("quant-attributes", "q", replace_quant(scale=2.0**-24)),
    ("quant-attributes", "q", replace_quant(scale=2.0**23 * 1.001)),
    ("quant-attributes", "q", replace_quant(scale=-1.0)),
    ("quant-attributes", "q", replace_quant(scale=float("nan"))),
    ("quant-attributes", "q", replace_quant(offset=0.5)),
    ("quant-attributes", "q", replace_quant(offset=128.0)),
    ("quant-attributes", "q", replace_quant(offset=-129.0)),
    ("quant-attributes", "q", replace_quant(offset=float("inf"))),
    ("quant-readers", "q", set_input("relu", 0, "xq")),
    ("quant-readers", "q", set_input("gemm", 1, "xq")),
    ("quant-pairs", "q", set_input("mm", 1, "xq")),  # whose offset is not 0
    ("quant-sources", "q", quantize_integers),
    ("dequant-types", "dq", set_attribute("dq", "dtype", 1)),
    ("quant-readers", "q", int8_output),
    ("dequant-attributes", "dq", set_attribute("dq", "dtype", 2)),
    ("dequant-attributes", "dq", set_attribute("dq", "dtype", 1.0)),
    ("dequant-scales", "dq", replace_initializer("s", np.ones(3, np.float32))),
    ("dequant-scales", "dq", replace_initializer("s", high_bits)),
    ("dequant-scales", "dq", replace_initializer("s", deq_scale([0.5, 0.25, 0.0]))),
    ("dequant-scales", "dq", replace_initializer("s", deq_scale([0.5, -0.25, 1.0]))),
    ("dequant-scales", "dq", replace_initializer("s", deq_scale([0.5, np.inf, 1.0]))),
    ("dequant-scales", "dq", replace_initializer("s", deq_scale([0.5, np.nan, 1.0]))),
    ("dequant-scales", "dq", replace_initializer("s", deq_scale([0.5, 0.5]))),
    ("dequant-scales", "dq", replace_initializer("s", deq_scale([0.5] * 3).reshape(1, 3))),
    ("dequant-scales", "dq", replace_initializer("s", np.zeros(0, np.uint64))),
    ("dequant-scales", "dq", set_input("dq", 1, "x")),
    ("dequant-inputs", "dq", set_input("dq", 0, "x")),
    ("layer-weights", "mm", replace_initializer("w", np.ones((4, 3), np.float32))),
    ("layer-weights", "mm", replace_initializer("w", np.ones((1, 4, 3), np.int8))),
    ("layer-weights", "mm", weight_input),
    ("layer-weights", "mm", int8_weight_of_a_float_layer),
    ("layer-attributes", "gemm", set_attribute("gemm", "transB", 1)),
    ("layer-attributes", "gemm", set_attribute("gemm", "alpha", 0.5)),
    ("op-attributes", "relu", set_attribute("relu", "alpha", 0.5)),
    ("op-attributes", "gemm", set_attribute("gemm", "alpha", 1)),
    ("op-inputs", "relu", unconnected_relu),
    ("op-inputs", "add", third_operand),
    ("element-types", "g", append("Cast", ["r"], ["t"], name="g", to=TensorProto.STRING)),
    ("layer-biases", "add", replace_initializer("b", np.ones(3, np.float32))),
    ("layer-biases", "add", replace_initializer("b", np.ones(2, np.int32))),
    ("layer-biases", "add", swap_bias),
    ("layer-biases", "gemm", replace_initializer("b2", np.ones(3, np.int64))),
    ("layer-outputs", "gemm", set_input("relu", 0, "g")),
    ("layer-outputs", "add", set_input("relu", 0, "mb")),
    ("layer-outputs", "mm", int32_output),
    # C41
    ("node-names", "q", rename("relu", "q")),
    ("node-names", "", rename("relu", "")),
    ("topological-order", "mm", reverse_nodes),
    ("topological-order", "relu", set_input("relu", 0, "nowhere")),
    ("static-shapes", "x", free_batch),
    ("static-shapes", "y", no_output_shape),
    ("opset", "com.microsoft", import_domain),
    ("domains", "com.microsoft", append("Gelu", ["r"], ["t"], name="g", domain="com.microsoft")),
    ("op-coverage", "Gelu", append("Gelu", ["r"], ["t"], name="g")),
    ("op-coverage", "ReduceL2", append("ReduceL2", ["r"], ["t"], name="g")),
    # C39
    ("standard-int8-op", "QuantizeLinear", append("QuantizeLinear", ["r", "r"], ["t"], name="g")),
    ("standard-int8-op", "MatMulInteger", append("MatMulInteger", ["xq", "w"], ["t"], name="g")),
    ("standard-int8-op", "QLinearConv", append("QLinearConv", ["r"] * 8, ["t"], name="g")),
]


@pytest.mark.parametrize(
    ("rule", "where", "edit"), ERRORS, ids=[f"{i}-{case[0]}" for i, case in enumerate(ERRORS)]
)
def test_each_departure_is_an_error_that_names_its_place(
    rule: str, where: str, edit: Callable[[onnx.ModelProto], None]
) -> None:
    model = deploy_model()
    edit(model)
    found = [finding for finding in findings(model) if finding.rule == rule]
    assert found, f"no finding of {rule}"
    assert any(finding.level == "error" and where in finding.where for finding in found)
    assert all(finding.what for finding in found)


def with_constant(model: onnx.ModelProto, dtype: Any = np.float32) -> onnx.ModelProto:
    model.graph.initializer.append(numpy_helper.from_array(np.ones((2, 4), dtype), "c"))
    return model


WARNINGS: list[tuple[str, Callable[[onnx.ModelProto], None]]] = [
    ("quant-attributes", replace_quant(offest=1.0)),
    ("quant-duplicates", lambda model: model.graph.node.append(quant("q2", "x", "xq2"))),
    ("quant-readers", lambda model: model.graph.node.append(quant("q2", "x", "t", scale=2.0))),
    ("dequant-attributes", set_attribute("dq", "dtype", None)),
    ("quant-sources", lambda model: set_input("q", 0, "c")(with_constant(model))),
    ("element-types", lambda model: with_constant(model, np.float64)),
]


@pytest.mark.parametrize(("rule", "edit"), WARNINGS)
def test_what_only_costs_speed_or_clarity_is_a_warning(
    rule: str, edit: Callable[[onnx.ModelProto], None]
) -> None:
    model = deploy_model()
    edit(model)
    found = findings(model)
    assert rule in {finding.rule for finding in found}
    assert {finding.level for finding in found} == {"warning"}


@pytest.mark.parametrize(
    ("opset", "cann", "clean"),
    [
        *((11, "2026", True), (18, "2026", True), (10, "2026", False), (19, "2026", False)),
        *((16, "8.0", True), (17, "8.0", False), (18, "8.0", False)),
    ],
)
def test_the_cann_version_decides_the_opsets(opset: int, cann: str, clean: bool) -> None:
    found = findings(deploy_model(opset), cann)
    assert (found == []) == clean
    assert clean or "opset" in {finding.rule for finding in found}


def test_equal_quantizers_on_different_tensors_are_no_duplicates() -> None:
    model = deploy_model()
    model.graph.node.insert(1, helper.make_node("Relu", ["x"], ["x2"], name="relu2"))
    model.graph.node.insert(2, quant("q2", "x2", "xq2"))
    node(model, "mm").input[0] = "xq2"
    assert findings(model) == []


def conv_model(op_type: str, weight: tuple[int, ...], scales: int, **attributes: Any) -> Any:
    graph = helper.make_graph(
        [
            quant("q", "x", "xq"),
            helper.make_node(op_type, ["xq", "w"], ["c"], name="conv", **attributes),
            helper.make_node("AscendDequant", ["c", "s"], ["y"], name="dq", dtype=1),
        ],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [1, 6, 8, 8])],
        [
            numpy_helper.from_array(np.ones(weight, np.int8), "w"),
            numpy_helper.from_array(deq_scale([0.5] * scales), "s"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize(
    ("op_type", "weight", "channels", "attributes"),
    [
        ("Conv", (6, 4, 1, 1), 6, {}),
        ("Conv", (6, 2, 1, 1), 6, {"group": 2}),
        ("ConvTranspose", (4, 6, 1, 1), 6, {}),
        ("ConvTranspose", (4, 3, 1, 1), 6, {"group": 2}),
    ],
)
def test_scales_are_counted_along_the_output_channels(
    op_type: str, weight: tuple[int, ...], channels: int, attributes: dict[str, int]
) -> None:
    assert findings(conv_model(op_type, weight, channels, **attributes)) == []
    assert findings(conv_model(op_type, weight, 1, **attributes)) == []
    wrong = findings(conv_model(op_type, weight, channels + 1, **attributes))
    assert [finding.rule for finding in wrong] == ["dequant-scales"]


def test_a_dilated_int8_transposed_convolution_is_refused() -> None:
    model = conv_model("ConvTranspose", (4, 6, 3, 3), 6, dilations=[2, 2], pads=[2, 2, 2, 2])
    assert [finding.rule for finding in findings(model)] == ["layer-attributes"]


def test_loops_and_functions_are_refused_and_if_bodies_are_looked_into() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2] x, bool c, int64 n) => (float[2] y) {
          [if] y = If (c) <
            then_branch = a () => (float[2] t) { [deep] t = Gelu (x) },
            else_branch = b () => (float[2] e) { [late] e = Relu (f)  [mid] f = Neg (x) }>
          [loop] k = Loop (n, c) <body = d (int64 i, bool p) => (bool o) { [id] o = Identity(p) }>
        }
        <opset_import: ["" : 17], domain: "local"> twice (v) => (w) { w = Add (v, v) }"""
    )
    places = {(finding.rule, finding.where) for finding in findings(model)}
    assert ("control-flow", "loop") in places
    assert ("functions", "twice") in places
    assert ("op-coverage", "Gelu") in places
    assert ("topological-order", "late") in places


def test_npu_ops_are_known_by_their_domain() -> None:
    model = deploy_model()
    model.opset_import.append(helper.make_opsetid("npu", 1))
    for op_type in ("NPUFastGelu", "NPUNothing"):
        new = helper.make_node(op_type, ["r"], [op_type], name=op_type, domain="npu")
        model.graph.node.append(new)
    assert [finding.where for finding in findings(model)] == ["npu::NPUNothing"]


def test_missing_external_data_is_a_finding_and_no_crash() -> None:
    model = deploy_model()
    scale = next(tensor for tensor in model.graph.initializer if tensor.name == "s")
    onnx.external_data_helper.set_external_data(scale, "gone.bin")
    scale.ClearField("raw_data")
    assert [finding.rule for finding in findings(model)] == ["dequant-scales"]


OPS = ["AscendQuant", "AscendDequant", "MatMul", "Gemm", "Conv", "ConvTranspose", "Add", "Relu"]
VALUES = ["x", "w", "b", "s", "w2", "", "v0", "v1", "v2", "v3", "nowhere"]
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["scale", "offset", "dst_type", "dtype", "group", "dilations", "alpha"]),
    st.one_of(
        st.integers(-300, 300),
        st.floats(width=32),
        st.sampled_from(["INT8", ""]),
        st.lists(st.integers(-2, 2), min_size=1, max_size=3),
    ),
    max_size=4,
)
NODES = st.lists(
    st.tuples(st.sampled_from(OPS), st.lists(st.sampled_from(VALUES), max_size=4), ATTRIBUTES),
    max_size=4,
)


@settings(max_examples=150)
@given(NODES, st.integers(0, 25))
def test_no_graph_makes_the_linter_crash(
    nodes: list[tuple[str, list[str], dict[str, Any]]], opset: int
) -> None:
    model = deploy_model(opset)
    del model.graph.node[:]
    for index, (op_type, inputs, attributes) in enumerate(nodes):
        model.graph.node.append(helper.make_node(op_type, inputs, [f"v{index}"], **attributes))
    for finding in findings(model):
        assert finding.rule
        assert finding.what
