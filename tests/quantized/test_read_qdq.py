"""QDQ models taken apart: the float model in them, and their scales as they were."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from quantflow.errors import QuantflowError
from quantflow.graph.passes.read_qdq import read_qdq
from quantflow.graph.quantized.file_layers import FileLayer
from tests.graph.models import assert_canonical, build, ops, run

from .qdq_models import (
    INT8,
    UINT8,
    found_in,
    integers,
    loaded,
    normal,
    one_layer,
    read,
    scalar,
)

X = normal(4, 8, seed=3)


def layer_of(model: onnx.ModelProto) -> FileLayer:
    found = found_in(model).layers["n_y"]
    assert isinstance(found, FileLayer), found
    return found


def reason_of(model: onnx.ModelProto) -> str:
    found = found_in(model).layers["n_y"]
    assert isinstance(found, str)
    return found


# --- scales and zero points -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "zero", "offset"),
    [(UINT8, 0, -128), (UINT8, 128, 0), (UINT8, 255, 127), (INT8, 0, 0), (INT8, -128, -128)],
)
def test_the_activation_keeps_its_scale_and_its_zero_point_less_128_where_it_was_unsigned(
    kind: Any, zero: int, offset: int
) -> None:
    given = read(one_layer(activation=kind, zero=zero, scale=0.0173)).given("n_y")
    assert given.scale_d == float(np.float32(0.0173))
    assert given.offset_d == offset


@pytest.mark.parametrize("per_channel", [True, False])
def test_the_float_weight_gives_the_files_integers_again(per_channel: bool) -> None:
    weight = integers(8, 5, low=-128).astype(INT8)
    scales = np.float32([0.001, 0.3, 2.5, 1e-5, 0.01]) if per_channel else scalar(0.0123)
    found = read(one_layer(weight=weight, weight_scale=scales))
    given = np.array(found.given("n_y").scale_w, np.float32)
    np.testing.assert_array_equal(given, np.atleast_1d(scales))
    np.testing.assert_array_equal(np.rint(found.weight("n_y") / given), weight)
    np.testing.assert_array_equal(found.weight("n_y"), weight.astype(np.float32) * scales)


def test_an_unsigned_weight_around_128_is_the_signed_one() -> None:
    signed = integers(8, 5).astype(INT8)
    unsigned = (signed.astype(np.int16) + 128).astype(UINT8)
    a = read(one_layer(weight=signed))
    b = read(one_layer(weight=unsigned, weight_zero=128))
    np.testing.assert_array_equal(a.weight("n_y"), b.weight("n_y"))
    assert a.given("n_y") == b.given("n_y")


def test_a_zero_point_is_no_matter_where_the_integers_less_it_are_int8() -> None:
    weight = integers(8, 5, low=-100, high=100).astype(INT8)
    found = layer_of(one_layer(weight=weight, weight_zero=20))
    assert found.weight.steps.max() <= 127


@pytest.mark.parametrize(
    ("kind", "attributes", "weight_shape", "axis"),
    [
        ("Gemm", "", (8, 5), 1),
        ("Gemm", "<transB=1>", (5, 8), 0),
        ("Gemm", "<transB=1, alpha=0.5>", (5, 8), 0),
        ("MatMul", "", (8, 5), -1),
    ],
)
def test_scales_run_along_the_output_channels_of_every_form(
    kind: str, attributes: str, weight_shape: tuple[int, int], axis: int
) -> None:
    weight = integers(*weight_shape).astype(INT8)
    scales = np.float32([0.01, 0.02, 0.03, 0.04, 0.05])
    alpha = 0.5 if "alpha" in attributes else 1.0
    model = one_layer(kind, weight=weight, weight_scale=scales, axis=axis, attributes=attributes)
    found = read(model)
    np.testing.assert_allclose(found.given("n_y").scale_w, scales * alpha, rtol=1e-6)
    rounded = np.rint(found.weight("n_y") / np.float32(found.given("n_y").scale_w))
    np.testing.assert_array_equal(rounded, weight.T if weight_shape[0] == 5 else weight)


def test_a_weight_turned_behind_its_dequantize_linear_keeps_its_scales() -> None:
    scales = np.float32([0.01, 0.02, 0.03, 0.04, 0.05])
    weight = integers(5, 8).astype(INT8)
    model = build(
        "(float[4,8] x) => (float[4,5] y) { xq = QuantizeLinear(x, xs, xz) "
        "xd = DequantizeLinear(xq, xs, xz) wd = DequantizeLinear<axis=0>(wq, ws) "
        "t = Transpose<perm=[1,0]>(wd) y = MatMul(xd, t) }",
        {"xs": scalar(0.1), "xz": scalar(0, INT8), "wq": weight, "ws": scales},
    )
    found = read(model)
    np.testing.assert_array_equal(np.float32(found.given("n_y").scale_w), scales)
    np.testing.assert_array_equal(np.rint(found.weight("n_y") / scales), weight.T)


@pytest.mark.parametrize("narrow", [True, False])
def test_a_float_weight_that_passes_through_both_is_what_comes_out(narrow: bool) -> None:
    # As quantization-aware training leaves it, with or without the level -128.
    weight = normal(8, 5) / 4
    clip = "c = Clip(wq, low, high)" if narrow else "c = Identity(wq)"
    arrays = {"xs": scalar(0.05), "xz": scalar(0, INT8), "w": weight, "ws": scalar(0.002)}
    arrays |= {"wz": scalar(0, INT8), "low": scalar(-127, INT8), "high": scalar(127, INT8)}
    model = build(
        "(float[4,8] x) => (float[4,5] y) { xq = QuantizeLinear(x, xs, xz) "
        "xd = DequantizeLinear(xq, xs, xz) wq = QuantizeLinear(w, ws, wz) "
        f"{clip} wd = DequantizeLinear(c, ws, wz) y = MatMul(xd, wd) }}",
        arrays,
    )
    expected = np.clip(np.rint(weight / np.float32(0.002)), -127 if narrow else -128, 127)
    found = read(model)
    assert np.abs(expected).max() >= 127
    np.testing.assert_array_equal(found.weight("n_y"), expected.astype(np.float32) * scalar(0.002))
    assert found.given("n_y").scale_w == (float(np.float32(0.002)),)


def test_a_four_bit_weight_is_int8_with_few_levels() -> None:
    weight = integers(8, 5, low=-8, high=7)
    model = one_layer(weight=weight.astype(INT8), opset=21)
    raw = [x for x in model.graph.initializer if x.name in ("wq", "wz")]
    for tensor, array in zip(raw, (weight, np.int64(0)), strict=True):
        kind = np.asarray(array).astype(ml_dtypes.int4)
        tensor.CopyFrom(onnx.numpy_helper.from_array(kind, tensor.name))
    found = read(model)
    np.testing.assert_array_equal(np.rint(found.weight("n_y") / scalar(0.01)), weight)


def test_the_bias_is_its_integers_times_its_scale() -> None:
    bias = integers(5, low=-5000, high=5000)
    scales = np.float32([0.01, 0.02, 0.03, 0.04, 0.05])
    model = one_layer("Gemm", weight_scale=scales, bias=bias)
    found = read(model)
    name = found.layer("n_y").bias
    assert name is not None
    floats = found.model.graph.initializers[name].const_value.numpy()
    np.testing.assert_array_equal(floats, bias.astype(np.float32) * (np.float32(0.02) * scales))


@pytest.mark.parametrize("opset", [10, 11, 13, 19, 21])
def test_every_opset_since_the_operators_exist_is_read(opset: int) -> None:
    found = read(one_layer(opset=opset))
    assert_canonical(found.model, 18)
    assert ops(found.model) == ["MatMul"]


def test_operators_of_onnxruntimes_own_domain_mean_the_same() -> None:
    model = one_layer(weight_scale=np.float32([0.01, 0.02, 0.03, 0.04, 0.05]))
    expected = read(model)
    for node in model.graph.node:
        if node.op_type.endswith("Linear"):
            node.domain = "com.microsoft"
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    found = read(model)
    assert found.record.given == expected.record.given
    assert_canonical(found.model, 18)


def test_scales_in_constant_nodes_and_computed_from_constants_are_read() -> None:
    model = build(
        "(float[4,8] x) => (float[4,5] y) { one = Constant<value_float=0.5>() "
        "xs = Mul(half, one) xq = QuantizeLinear(x, xs, xz) xd = DequantizeLinear(xq, xs, xz) "
        "wd = DequantizeLinear(wq, ws) y = MatMul(xd, wd) }",
        {"half": scalar(0.5), "xz": scalar(3, INT8), "wq": integers(8, 5).astype(INT8),
         "ws": scalar(0.01)},
    )  # fmt: skip
    assert read(model).given("n_y").scale_d == 0.25


@pytest.mark.parametrize("at_the_boundary", [True, False])
def test_scales_in_half_precision_are_the_float32_they_equal(at_the_boundary: bool) -> None:
    half = np.float16
    arrays = {"xs": scalar(0.05, half), "xz": scalar(0, INT8), "wq": integers(8, 5).astype(INT8),
              "ws": (np.abs(normal(5)) / 100 + 1e-3).astype(half)}  # fmt: skip
    head = "(int8[4,8] xq) => (float16[4,5] y) {"
    if not at_the_boundary:
        head = "(float16[4,8] x) => (float16[4,5] y) { xq = QuantizeLinear(x, xs, xz)"
    model = build(
        f"{head} xd = DequantizeLinear(xq, xs, xz) wd = DequantizeLinear<axis=1>(wq, ws) "
        "y = MatMul(xd, wd) }",
        arrays,
        opset=19,
    )
    found = read(model)
    assert found.given("n_y").scale_d == float(half(0.05))
    np.testing.assert_array_equal(found.given("n_y").scale_w, arrays["ws"].astype(np.float64))
    scales = np.float32(found.given("n_y").scale_w)
    np.testing.assert_array_equal(np.rint(found.weight("n_y") / scales), arrays["wq"])
    name = "xq" if at_the_boundary else "x"
    x = integers(4, 8).astype(INT8) if at_the_boundary else normal(4, 8).astype(half)
    a, b = run(model, {name: x})["y"], run(found.model, {name: x})["y"]
    assert a.dtype == b.dtype == half
    np.testing.assert_allclose(b, a, atol=0.05 * 8)


def test_a_float_model_is_left_alone() -> None:
    model = loaded(build("(float[4,8] x) => (float[4,8] y) { y = Relu(x) }"))
    assert read_qdq(model) is None
    assert ops(model) == ["Relu"]


# --- what Ascend does not compute ---------------------------------------------------------------


FIVE, EIGHT = np.float32([1, 2, 3, 4, 5]) / 100, np.float32(range(1, 9)) / 100


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"weight": np.full((8, 5), 255, UINT8), "weight_zero": 3}, "asymmetric"),
        ({"weight_scale": EIGHT, "axis": 0}, "differ within an output channel"),
        ({"weight": np.full((8, 5), 300, np.int16)}, "int16"),
        ({"activation": np.int16, "zero": 0}, "int16, AscendQuant writes int8"),
        ({"weight_scale": scalar(0.0)}, "not positive"),
        ({"weight_scale": -FIVE}, "not positive"),
        ({"scale": 0.0}, "scale of its input is 0"),
        ({"scale": float("nan")}, "scale of its input is nan"),
        ({"scale": 2.0**24}, "[2^-23, 2^23]"),
        ({"scale": 2.0**-24}, "[2^-23, 2^23]"),
    ],
)
def test_what_ascend_cannot_compute_is_said(settings: dict[str, Any], says: str) -> None:
    opset = 21 if "int16" in says else 18
    assert says in reason_of(one_layer(**settings, opset=opset))


def test_a_scale_per_channel_of_the_activation_is_said() -> None:
    model = build(
        "(float[4,8] x) => (float[4,5] y) { xq = QuantizeLinear<axis=1>(x, xs, xz) "
        "xd = DequantizeLinear<axis=1>(xq, xs, xz) wd = DequantizeLinear(wq, ws) "
        "y = MatMul(xd, wd) }",
        {"xs": EIGHT, "xz": np.zeros(8, INT8), "wq": integers(8, 5).astype(INT8),
         "ws": scalar(0.01)},
    )  # fmt: skip
    assert "per channel" in reason_of(model)


def test_a_scale_per_block_of_the_weight_is_said() -> None:
    model = one_layer(opset=21)
    blocks = {"ws": np.abs(normal(2, 5)) + 0.1, "wz": np.zeros((2, 5), INT8)}
    for tensor in model.graph.initializer:
        if tensor.name in blocks:
            array = blocks[tensor.name].astype(np.float32 if tensor.name == "ws" else INT8)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    dequantize = next(node for node in model.graph.node if node.output[0] == "wd")
    dequantize.attribute.extend([helper.make_attribute("block_size", 4)])
    dequantize.attribute.extend([helper.make_attribute("axis", 0)])
    assert "differ within an output channel" in reason_of(model)


def test_a_float_side_is_said() -> None:
    weights = {"xs": scalar(0.1), "xz": scalar(0, INT8), "w": normal(8, 5), "ws": scalar(0.1)}
    weights["wq"] = integers(8, 5).astype(INT8)
    quantized = "xq = QuantizeLinear(x, xs, xz) xd = DequantizeLinear(xq, xs, xz)"
    head = "(float[4,8] x) => (float[4,5] y) {"
    a = build(f"{head} {quantized} y = MatMul(xd, w) }}", weights)
    b = build(f"{head} wd = DequantizeLinear(wq, ws) y = MatMul(x, wd) }}", weights)
    assert "weight is float" in reason_of(a)
    assert "input is float" in reason_of(b)


def test_a_file_of_which_nothing_remains_is_refused_with_every_reason() -> None:
    with pytest.raises(QuantflowError) as caught:
        read(one_layer(weight_scale=EIGHT, axis=0))
    (problem,) = caught.value.problems
    assert problem.code == "QF231" and "n_y" in problem.where and "differ within" in problem.what


def test_layers_that_the_file_left_float_stay_float_and_say_so() -> None:
    model = build(
        "(float[4,8] x) => (float[4,5] y) { xq = QuantizeLinear(x, xs, xz) "
        "xd = DequantizeLinear(xq, xs, xz) wd = DequantizeLinear(wq, ws) h = MatMul(xd, wd) "
        "r = Tanh(h) y = MatMul(r, v) }",
        {"xs": scalar(0.1), "xz": scalar(0, INT8), "wq": integers(8, 6).astype(INT8),
         "ws": scalar(0.01), "v": normal(6, 5)},
    )  # fmt: skip
    found = read(model)
    assert found.layer("n_h").float_reason == ""
    assert found.layer("n_y").float_reason == "it is float in the quantized file"
    assert [group.name for group in found.record.groups] == ["n_h"]


@pytest.mark.parametrize("op_type", ["DynamicQuantizeLinear", "MatMulInteger"])
def test_dynamic_quantization_is_refused_with_the_way_out(op_type: str) -> None:
    nodes = {
        "DynamicQuantizeLinear": "q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)",
        "MatMulInteger": "q = Cast<to=3>(x) i = MatMulInteger(q, w) y = Cast<to=1>(i)",
    }
    text = f"(float[4,8] x) => (float[4,?] y) {{ {nodes[op_type]} }}"
    with pytest.raises(QuantflowError) as caught:
        read_qdq(loaded(build(text, {"w": integers(8, 5).astype(INT8)})))
    (problem,) = caught.value.problems
    assert problem.code == "QF230" and op_type in problem.what and "statically" in problem.fix


def test_integers_that_something_computes_with_are_refused() -> None:
    text = (
        "(float[4,8] x) => (float[4,8] y) { q = QuantizeLinear(x, s, z) r = Add(q, q) "
        "y = DequantizeLinear(r, s, z) }"
    )
    with pytest.raises(QuantflowError) as caught:
        found_in(build(text, {"s": scalar(0.1), "z": scalar(0, INT8)}))
    assert caught.value.problems[0].code == "QF230" and "Add" in caught.value.problems[0].what


def test_factors_that_differ_before_and_after_are_refused() -> None:
    text = (
        "(float[4,8] x) => (float[4,8] y) { q = QuantizeLinear(x, s, z) "
        "y = DequantizeLinear(q, t, z) }"
    )
    weights = {"s": scalar(0.1), "t": scalar(0.2), "z": scalar(0, INT8)}
    with pytest.raises(QuantflowError, match="other factors"):
        found_in(build(text, weights))


def test_scales_that_do_not_fit_their_tensor_are_refused() -> None:
    with pytest.raises(QuantflowError) as caught:
        found_in(one_layer(weight_scale=FIVE, axis=0))
    assert caught.value.problems[0].code == "QF230"


@pytest.mark.parametrize("axis", [2, 5, -3])
def test_scales_along_an_axis_that_a_weight_has_not_are_refused(axis: int) -> None:
    square = integers(5, 5).astype(INT8)
    with pytest.raises(QuantflowError) as caught:
        found_in(one_layer(weight=square, weight_scale=FIVE, axis=axis, shape="4,5"))
    (problem,) = caught.value.problems
    assert problem.code == "QF230" and f"axis {axis}" in problem.what


# --- the graph ------------------------------------------------------------------------------------


def test_the_float_model_computes_what_the_file_computes_up_to_rounding_of_activations() -> None:
    model = one_layer("Gemm", scale=0.001, zero=128, bias=integers(5))
    x = np.clip(X, -0.12, 0.12)
    expected, found = run(model, {"x": x}), run(read(model).model, {"x": x})
    np.testing.assert_allclose(found["y"], expected["y"], atol=0.001 * 8 * 1.27 / 2)


TAIL = (
    "xq = QuantizeLinear(v, xs, xz) xd = DequantizeLinear(xq, xs, xz) wd = DequantizeLinear(wq, ws)"
)
HEAD = "(float[4,8] x) => (float[4,5] y) {"


def tail(scale: float, zero: int, kind: Any = UINT8) -> dict[str, np.ndarray]:
    return {"xs": scalar(scale), "xz": scalar(zero, kind), "ws": scalar(0.01),
            "wq": integers(8, 5).astype(INT8)}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "scale", "zero", "kind", "expected"),
    [
        ("v = Neg(x)", 0.02, 0, UINT8, ["Neg", "Relu", "MatMul"]),
        ("v = Neg(x)", 0.02, -128, INT8, ["Neg", "Relu", "MatMul"]),
        ("v = Neg(x)", 6 / 255, 0, UINT8, ["Neg", "Clip", "MatMul"]),
        ("v = Neg(x)", 0.02, 7, UINT8, ["Neg", "MatMul"]),
        ("v = Relu(x)", 0.02, 0, UINT8, ["Relu", "MatMul"]),
        ("r = Sigmoid(x) v = Transpose<perm=[0,1]>(r)", 0.02, 0, UINT8, None),
        ("v = Identity(x)", 0.02, 0, UINT8, ["MatMul"]),
    ],
)
def test_a_relu_that_quantization_stood_for_comes_back(
    before: str, scale: float, zero: int, kind: Any, expected: list[str] | None
) -> None:
    model = build(f"{HEAD} {before} {TAIL} y = MatMul(xd, wd) }}", tail(scale, zero, kind))
    found = read(model)
    assert "Relu" not in ops(found.model) if expected is None else ops(found.model) == expected
    x = X[:4] * 3
    expected_y, y = run(model, {"x": x})["y"], run(found.model, {"x": x})["y"]
    if "Clip" in ops(found.model) or expected is None:
        np.testing.assert_allclose(y, expected_y, atol=scale / 2 * 1.27 * 8)


def test_what_leaves_values_as_they_are_may_stand_between_quantization_and_layer() -> None:
    model = build(
        "(float[2,2,4,4] x) => (float[2,5] y) { xq = QuantizeLinear(x, xs, xz) "
        "xd = DequantizeLinear(xq, xs, xz) m = MaxPool<kernel_shape=[2,2], strides=[2,2]>(xd) "
        "f = Flatten(m) wd = DequantizeLinear(wq, ws) y = MatMul(f, wd) }",
        tail(0.05, 128),
    )
    given = read(model).given("n_y")
    assert (given.scale_d, given.offset_d) == (float(np.float32(0.05)), 0)


def test_integers_may_be_moved_before_they_are_floats_again() -> None:
    model = build(
        "(float[2,2,4,4] x) => (float[2,5] y) { xq = QuantizeLinear(x, xs, xz) "
        "m = MaxPool<kernel_shape=[2,2], strides=[2,2]>(xq) f = Flatten(m) c = Concat<axis=0>(f) "
        "xd = DequantizeLinear(c, xs, xz) wd = DequantizeLinear(wq, ws) y = MatMul(xd, wd) }",
        tail(0.05, 128),
    )
    found = read(model)
    assert found.given("n_y").offset_d == 0
    assert_canonical(found.model, 18)
    x = normal(2, 2, 4, 4)
    assert np.allclose(run(found.model, {"x": x})["y"], run(model, {"x": x})["y"], atol=0.3)


def test_a_concat_of_one_scale_is_on_it_and_of_two_is_not() -> None:
    text = (
        "(float[4,4] x) => (float[4,5] y) {{ r = Neg(x) a = QuantizeLinear(x, xs, xz) "
        "da = DequantizeLinear(a, xs, xz) b = QuantizeLinear(r, {s}, xz) "
        "db = DequantizeLinear(b, {s}, xz) c = Concat<axis=1>(da, db) "
        "wd = DequantizeLinear(wq, ws) y = MatMul(c, wd) }}"
    )
    weights = tail(0.05, 128) | {"other": scalar(0.06)}
    assert isinstance(found_in(build(text.format(s="xs"), weights)).layers["n_y"], FileLayer)
    assert "different scales" in reason_of(build(text.format(s="other"), weights))


def test_layers_that_quantize_one_tensor_differently_share_the_widest_range() -> None:
    model = build(
        "(float[4,8] x) => (float[4,5] y) { a = QuantizeLinear(x, s1, z) "
        "da = DequantizeLinear(a, s1, z) b = QuantizeLinear(x, s2, z) "
        "db = DequantizeLinear(b, s2, z) wd = DequantizeLinear(wq, ws) "
        "ve = DequantizeLinear(vq, ws) p = MatMul(da, wd) q = MatMul(db, ve) y = Add(p, q) }",
        {"s1": scalar(0.02), "s2": scalar(0.03), "z": scalar(0, INT8), "ws": scalar(0.01),
         "wq": integers(8, 5).astype(INT8), "vq": integers(8, 5, seed=1).astype(INT8)},
    )  # fmt: skip
    found = read(model)
    assert {x.scale_d for x in found.record.given} == {float(np.float32(0.03))}
    assert any("2 scales" in note for note in found.record.notes)


def test_quantization_around_other_operators_and_outputs_is_gone() -> None:
    model = build(
        "(float[4,8] x) => (float[4,5] y) { a = QuantizeLinear(x, xs, xz) "
        "b = DequantizeLinear(a, xs, xz) s = Softmax(b) c = QuantizeLinear(s, xs, xz) "
        "d = DequantizeLinear(c, xs, xz) wd = DequantizeLinear(wq, ws) m = MatMul(d, wd) "
        "e = QuantizeLinear(m, xs, xz) y = DequantizeLinear(e, xs, xz) }",
        tail(0.05, 128),
    )
    found = read(model)
    assert ops(found.model) == ["Softmax", "MatMul"]
    assert [value.name for value in found.model.graph.outputs] == ["y"]
    assert list(found.found.layers) == ["n_m"]


def test_a_shared_dequantized_weight_serves_a_layer_and_a_table() -> None:
    model = build(
        "(int64[4] i) => (float[4,6] y) { wd = DequantizeLinear(wq, ws) e = Gather(wd, i) "
        "xq = QuantizeLinear(e, xs, xz) xd = DequantizeLinear(xq, xs, xz) "
        "t = Transpose<perm=[1,0]>(wd) y = MatMul(xd, t) }",
        tail(0.05, 128) | {"wq": integers(6, 8).astype(INT8)},
    )
    found = read(model)
    assert_canonical(found.model, 18)
    assert found.given("n_y").scale_w == (float(np.float32(0.01)),)


@pytest.mark.parametrize("kind", [UINT8, INT8])
def test_integer_inputs_and_outputs_stay_integers(kind: Any) -> None:
    name = "uint8" if kind is UINT8 else "int8"
    zero = 100 if kind is UINT8 else -5
    model = build(
        f"({name}[4,8] x) => ({name}[4,5] y) {{ xd = DequantizeLinear(x, xs, xz) "
        "wd = DequantizeLinear(wq, ws) m = MatMul(xd, wd) y = QuantizeLinear(m, ys, xz) }",
        tail(0.05, zero, kind) | {"ys": scalar(0.1)},
    )
    found = read(model)
    assert_canonical(found.model, 18)
    assert found.given("n_m").offset_d == (zero - 128 if kind is UINT8 else zero)
    x = integers(4, 8, low=0 if kind is UINT8 else -128).astype(kind)
    expected, y = run(model, {"x": x})["y"], run(found.model, {"x": x})["y"]
    assert y.dtype == expected.dtype
    assert np.abs(y.astype(int) - expected.astype(int)).max() <= 1


def test_quantization_inside_an_if_is_taken_out_as_well() -> None:
    body = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["m", "xs", "xz"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
        ],
        "then",
        [],
        [helper.make_tensor_value_info("d", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["m"], ["n"])],
        "else",
        [],
        [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)],
    )
    model = build(
        "(float[4,8] x, bool c) => (float[4,5] y) { xq = QuantizeLinear(x, xs, xz) "
        "xd = DequantizeLinear(xq, xs, xz) wd = DequantizeLinear(wq, ws) m = MatMul(xd, wd) "
        "y = Identity(m) }",
        tail(0.05, 128),
    )
    del model.graph.node[-1]
    model.graph.node.append(
        helper.make_node("If", ["c"], ["y"], name="if", then_branch=body, else_branch=other)
    )
    result = loaded(model)
    assert read_qdq(result) is not None
    names = {node.op_type for node in result.graph.all_nodes()}
    assert not names & {"QuantizeLinear", "DequantizeLinear"}
    feeds = {"x": X[:4], "c": np.asarray(True)}
    assert np.allclose(run(result, feeds)["y"], run(model, feeds)["y"], atol=0.5)


def test_a_batch_norm_folded_into_a_quantized_convolution_moves_its_scales() -> None:
    weight = integers(4, 3, 3, 3).astype(INT8)
    gain = np.float32([0.5, -2.0, 1.0, 3.0])
    model = build(
        "(float[1,3,6,6] x) => (float[1,4,4,4] y) { xq = QuantizeLinear(x, xs, xz) "
        "xd = DequantizeLinear(xq, xs, xz) wd = DequantizeLinear(wq, ws) c = Conv(xd, wd) "
        "y = BatchNormalization<epsilon=0.0>(c, gain, zero, zero, one) }",
        tail(0.05, 128) | {"wq": weight, "gain": gain, "zero": np.zeros(4, np.float32),
                           "one": np.ones(4, np.float32)},
    )  # fmt: skip
    found = read(model)
    (given,) = found.record.given
    np.testing.assert_allclose(given.scale_w, 0.01 * np.abs(gain), rtol=1e-6)
    scales = np.float32(given.scale_w)[:, None, None, None]
    rounded = np.rint(found.weight(given.layer) / scales)
    np.testing.assert_array_equal(rounded, weight * np.sign(gain)[:, None, None, None])


@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_convolution_has_its_channels_on_the_second_axis(groups: int) -> None:
    weight = integers(4, 3, 2, 2).astype(INT8)
    scales = np.float32([0.01, 0.02, 0.03])
    model = build(
        f"(float[1,4,5,5] x) => (float[1,{3 * groups},6,6] y) {{ xq = QuantizeLinear(x, xs, xz) "
        "xd = DequantizeLinear(xq, xs, xz) wd = DequantizeLinear<axis=1>(wq, wsc) "
        f"y = ConvTranspose<group={groups}>(xd, wd) }}",
        tail(0.05, 128) | {"wq": weight, "wsc": scales},
    )
    found = layer_of(model)
    np.testing.assert_array_equal(found.weight.scale, np.tile(scales, groups))


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
def test_operators_without_their_inputs_are_refused_in_words(op_type: str, kept: int) -> None:
    model = one_layer()
    node = next(node for node in model.graph.node if node.op_type == op_type)
    del node.input[kept:]
    with pytest.raises(QuantflowError) as caught:
        read_qdq(loaded(model))
    assert caught.value.problems[0].code == "QF230"


def test_scales_that_the_model_computes_are_refused_in_words() -> None:
    model = one_layer()
    model.graph.node[0].input[1] = "x"
    with pytest.raises(QuantflowError) as caught:
        read_qdq(loaded(model))
    assert caught.value.problems[0].code == "QF230"
