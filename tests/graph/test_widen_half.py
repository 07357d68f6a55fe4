"""Half precision in a file: float32 inside, the boundary as it was."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from .models import assert_canonical, assert_close, build, canonical, ops, rand, run

W = rand(4, 3).astype(np.float16)
X = rand(5, 4, seed=1)


def test_a_float16_model_computes_in_float32_between_a_boundary_of_float16() -> None:
    model = build(
        "(float16[b,4] x) => (float16[b,3] y) { m = MatMul(x, w) a = Add(m, c) y = Tanh(a) }",
        {"w": W, "c": rand(3, seed=2).astype(np.float16)},
    )
    result, notes = canonical(model)
    assert_canonical(result, 18)
    assert ops(result) == ["Cast", "MatMul", "Add", "Tanh", "Cast"]
    (value,), (output,) = result.graph.inputs, result.graph.outputs
    assert (value.name, value.dtype) == ("x", ir.DataType.FLOAT16)
    assert (output.name, output.dtype) == ("y", ir.DataType.FLOAT16)
    assert any("half precision" in note for note in notes)
    x = X.astype(np.float16)
    wide = np.tanh(x.astype(np.float64) @ W + rand(3, seed=2).astype(np.float16))
    assert_close(run(result, {"x": x}), {"y": wide.astype(np.float16)}, 1e-3)


def test_float16_weights_are_the_same_numbers_in_float32() -> None:
    model = build(
        "(float[b,4] x) => (float[b,3] y) { v = Cast<to=1>(w) y = MatMul(x, v) }", {"w": W}
    )
    result, _ = canonical(model)
    assert ops(result) == ["MatMul"]
    (weight,) = result.graph.initializers.values()
    assert weight.const_value is not None and weight.dtype == ir.DataType.FLOAT
    assert np.array_equal(weight.const_value.numpy(), W.astype(np.float32))
    assert_close(run(result, {"x": X}), run(model, {"x": X}))


def test_bfloat16_weights_are_widened_too() -> None:
    array = rand(4, 3).astype(ml_dtypes.bfloat16)
    model = ir.from_proto(
        build("(float[b,4] x) => (float[b,3] y) { v = Cast<to=1>(w) y = MatMul(x, v) }")
    )
    weight = ir.val("w", const_value=ir.tensor(array, name="w"))
    model.graph.register_initializer(weight)
    model.graph[0].replace_input_with(0, weight)
    result, _ = canonical(ir.to_proto(model))
    assert_close(run(result, {"x": X}), {"y": X @ array.astype(np.float32)})


def test_values_between_casts_to_half_are_not_rounded() -> None:
    """The precision that a node runs in is decided later, by what a target does."""
    model = build(
        "(float[b,4] x) => (float[b,3] y) { x0 = Cast<to=10>(x) w0 = Cast<to=10>(w) "
        "y0 = MatMul(x0, w0) y = Cast<to=1>(y0) }",
        {"w": W.astype(np.float32)},
    )
    result, _ = canonical(model)
    assert_close(run(result, {"x": X}), {"y": X @ W.astype(np.float32)})


def test_every_output_keeps_its_type_whatever_it_is_wired_to() -> None:
    model = build(
        "(float16[b,4] x, float[b,4] f) => "
        "(float16[b,4] same, float16[b,4] y, float16[4] k, float16[b,4] y2, float[b,4] g) "
        "{ same = Identity(x) h = Cast<to=10>(f) y = Add(x, h) k = Identity(c) "
        "y2 = Identity(y) g = Relu(f) }",
        {"c": np.float16([1, 2, 3, 4])},
    )
    feeds: dict[str, Any] = {"x": X.astype(np.float16), "f": X}
    result, _ = canonical(model)
    assert_close(run(result, feeds), run(model, feeds), 1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_types_that_nodes_name_or_hold_are_widened(dtype: str) -> None:
    number = {"float16": 10, "bfloat16": 16}[dtype]
    model = build(
        f"(float[b,4] x) => (float[b,4] y) {{ s = Shape(x) "
        f"z = ConstantOfShape<value = float[1] {{2}}>(s) h = Cast<to={number}>(x) "
        f"r = EyeLike<dtype={number}>(x) p = Mul(h, z) q = Add(p, r) "
        f"y = Cast<to=1>(q) }}"
    )
    two = numpy_helper.from_array(np.array([2], getattr(ml_dtypes, dtype, np.float16)))
    model.graph.node[1].attribute[0].t.CopyFrom(two)
    result, _ = canonical(model)
    assert_close(run(result, {"x": X}), {"y": 2 * X + np.eye(5, 4, dtype=np.float32)})


def test_half_precision_in_the_bodies_of_an_if_is_widened() -> None:
    model = build(
        "(float16[b,4] x, bool c) => (float16[b,3] y) { m = MatMul(x, w) y = If (c) "
        "<then_branch = t () => (float16[b,3] p) { p = Relu(m) }, "
        "else_branch = e () => (float16[b,3] q) { k = Constant<value = float {2}>() "
        "q = Mul(m, k) }> }",
        {"w": W},
    )
    (body,) = [a.g for a in model.graph.node[1].attribute if a.name == "else_branch"]
    body.node[0].attribute[0].t.CopyFrom(numpy_helper.from_array(np.float16(2)))
    result, _ = canonical(model)
    assert_canonical(result, 18)
    x = X.astype(np.float16)
    for c in (True, False):
        product = x.astype(np.float32) @ W.astype(np.float32)
        expected = np.maximum(product, 0) if c else product * 2
        found = run(result, {"x": x, "c": np.array(c)})
        assert_close(found, {"y": expected.astype(np.float16)}, 1e-3)
