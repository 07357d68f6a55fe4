"""A bucket computes what the dynamic model does, and keeps the names of layers and tensors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quantflow.errors import QuantflowError
from quantflow.graph.bucket import bucket_model, bucket_name, check_dims, free_dims
from quantflow.graph.edit import cut_between, values_by_name, with_outputs
from quantflow.graph.layers import describe_model
from quantflow.graph.model_io import model_bytes

from .blocks import attention, feed_forward, layer_norm, transformer
from .models import Arrays, assert_close, build, canonical, ops, rand, run

W = rand(4, 4)


def check_bucket(model: onnx.ModelProto, feeds: Arrays, **dims: int) -> ir.Model:
    """The bucket, once it computes the same, is static and has kept every name."""
    dynamic, _ = canonical(model)
    record = describe_model(dynamic, dims, mask=None, notes=[])
    before = model_bytes(dynamic)
    static = bucket_model(dynamic, dims)
    assert model_bytes(dynamic) == before
    assert_close(run(static, feeds), run(dynamic, feeds))
    have, nodes = values_by_name(static), {node.name for node in static.graph}
    for layer in record.layers:
        if not layer.float_reason:
            names = (layer.input, layer.weight, layer.output, layer.bias)
            assert all(name in have for name in names if name), names
            assert layer.node in nodes and (layer.bias_node or layer.node) in nodes
    for value in have.values():
        assert value.shape is not None and value.shape.is_static(), value.name
    for value, array in zip(static.graph.outputs, run(static, feeds).values(), strict=True):
        assert value.shape is not None and value.shape.numpy() == array.shape
    return static


def test_an_encoder_block_is_the_same_in_its_bucket() -> None:
    body = attention("x", "A") + layer_norm("A", "N") + feed_forward("N", "F")
    model = transformer(body + "y = MatMul(F, wy)", "Awq Awk Awv Awo Fw1 Fw2 wy")
    for batch, length in ((1, 1), (1, 5), (3, 4)):
        x = rand(batch, length, 8, seed=length)
        check_bucket(model, {"x": x}, batch=batch, length=length)


def test_shapes_are_folded() -> None:
    model = build(
        "(float[batch,length,4] x) => (float[batch,k] y) { s = Shape<start=0, end=1>(x) "
        "t = Concat<axis=0>(s, rest) h = MatMul(x, w) y = Reshape(h, t) }",
        {"w": W, "rest": np.int64([-1])},
    )
    static = check_bucket(model, {"x": rand(2, 3, 4)}, batch=2, length=3)
    assert ops(static) == ["MatMul", "Reshape"]


@pytest.mark.parametrize(
    "body",
    [
        # The bucket makes these leave their input as it is.
        "t = Concat<axis=0>(n, three) f = Reshape(x, t)",
        "t = Concat<axis=0>(n, ones) f = Expand(x, t)",
        "t = Concat<axis=0>(n, three) r = Relu(x) f = Reshape(r, t)",
        "t = Concat<axis=0>(n, three) f0 = Reshape(x, t) f = Reshape(f0, t)",
        "m = Squeeze(n) f = Slice(x, zero, n, zero)",
    ],
)
def test_an_input_of_a_layer_keeps_its_name_when_what_made_it_is_folded(body: str) -> None:
    model = build(
        f"(float[batch,3,4] x, float[n,4] z) => (float[k,3,4] y, float[k,3,4] v) "
        f"{{ n = Shape<start=0, end=1>(z) {body} h = MatMul(f, w) v = MatMul(f, w2) y = Relu(h) }}",
        {"w": W, "w2": rand(4, 4, seed=1), "three": np.int64([3, 4]), "ones": np.int64([1, 1]),
         "zero": np.int64([0])},
    )  # fmt: skip
    check_bucket(model, {"x": rand(2, 3, 4), "z": rand(2, 4)}, batch=2, n=2)


def test_a_product_of_two_variables_keeps_its_operands_apart() -> None:
    model = build(
        "(float[batch,3,3] x, float[n] z) => (float[batch,3,3] y) "
        "{ n0 = Shape(z) t = Concat<axis=0>(n0, three) a = Reshape(x, t) r = Relu(x) "
        "p = MatMul(a, r) y = MatMul(p, w) }",
        {"w": rand(3, 3), "three": np.int64([3, 3])},
    )
    check_bucket(model, {"x": rand(2, 3, 3), "z": rand(2)}, batch=2, n=2)


def test_outputs_that_become_constant_stay_outputs() -> None:
    model = build(
        "(float[batch,length,4] x) => (float[batch,length,4] y, int64[3] s) "
        "{ s = Shape(x) y = MatMul(x, w) }",
        {"w": W},
    )
    check_bucket(model, {"x": rand(2, 3, 4)}, batch=2, length=3)


def test_an_if_stays_and_computes_the_same() -> None:
    model = build(
        """(float[batch,4] x, float[batch] f) => (float[batch,4] y) { h = MatMul(x, w)
        m = ReduceMax <keepdims = 0> (f) c = Greater(m, zero) y = If (c) <
        then_branch = t () => (float[batch,4] t1) { t1 = MatMul(h, w2) },
        else_branch = e () => (float[batch,4] e1) { s = Shape(x) e0 = Reshape(h, s)
        e1 = Relu(e0) }> }""",
        {"w": W, "w2": rand(4, 4, seed=1), "zero": np.array(0, np.float32)},
    )
    for flag in (1, -1):
        feeds = {"x": rand(2, 4), "f": np.full(2, flag, np.float32)}
        check_bucket(model, feeds, batch=2)


def test_every_dimension_that_a_bucket_leaves_free_is_named() -> None:
    model, _ = canonical(
        build(
            "(float[batch,length,4] x, float[batch,other] z) => (float[batch,length,4] y) "
            "{ y = MatMul(x, w) }",
            {"w": W},
        )
    )
    assert free_dims(model) == ["batch", "length", "other"]
    with pytest.raises(QuantflowError) as caught:
        bucket_model(model, {"length": 3})
    found = caught.value.problems
    assert [p.code for p in found] == ["QF206", "QF206"]
    assert ["'batch'" in found[0].what, "'other'" in found[1].what] == [True, True]
    check_dims(model, {"batch": 1, "length": 2, "other": 3})


def test_a_static_model_is_its_own_bucket() -> None:
    model = build("(float[2,4] x) => (float[2,4] y) { y = MatMul(x, w) }", {"w": W})
    check_bucket(model, {"x": rand(2, 4)})


@pytest.mark.parametrize(
    ("dims", "name"),
    [
        ({"batch": 1, "length": 128}, "batch1_length128"),
        ({}, "static"),
        ({"../x": 1, "a b": 2, "s77 + 1": 3}, None),
    ],
)
def test_the_name_of_a_bucket_is_fit_for_file_names(dims: dict[str, int], name: Any) -> None:
    found = bucket_name(dims)
    assert name is None or found == name
    assert re.fullmatch(r"\w[\w.-]*", found) and ".." not in found


def test_the_same_bucket_is_the_same_bytes() -> None:
    body = attention("x", "A") + layer_norm("A", "y")
    model, _ = canonical(transformer(body, "Awq Awk Awv Awo"))
    dims = {"batch": 1, "length": 4}
    assert model_bytes(bucket_model(model, dims)) == model_bytes(bucket_model(model, dims))


# --- edits -------------------------------------------------------------------------------------

CHAIN = "(float[batch,4] x) => (float[batch,4] y) { a = MatMul(x, w) c = Relu(a) y = Tanh(c) }"


def test_outputs_can_be_any_values_and_what_they_do_not_need_goes() -> None:
    model, _ = canonical(build(CHAIN, {"w": W}))
    x = rand(2, 4)
    found = run(with_outputs(model, ["c", "a"]), {"x": x})
    assert list(found) == ["c", "a"] and found["a"] == pytest.approx(x @ W, abs=1e-6)
    assert "Tanh" not in ops(with_outputs(model, ["c", "a"]))
    kept = with_outputs(model, ["a", "y"], keep=True)
    assert [value.name for value in kept.graph.outputs] == ["y", "a"]
    assert [value.name for value in model.graph.outputs] == ["y"]


def test_an_output_that_does_not_exist_is_said_with_near_names() -> None:
    model, _ = canonical(build(CHAIN.replace("c", "hidden"), {"w": W}))
    with pytest.raises(QuantflowError) as caught:
        with_outputs(model, ["hiden"])
    (problem,) = caught.value.problems
    assert problem.code == "QF204" and "'hidden'" in problem.fix


def test_a_model_can_be_cut_at_any_value() -> None:
    model, _ = canonical(build(CHAIN, {"w": W}))
    cut = cut_between(model, ["a"], ["y"])
    assert ops(cut) == ["Relu", "Tanh"]
    a = rand(3, 4)
    assert run(cut, {"a": a})["y"] == pytest.approx(np.tanh(np.maximum(a, 0)), abs=1e-6)
    assert [value.name for value in model.graph.inputs] == ["x"]
