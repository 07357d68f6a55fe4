"""Cutting a part out of a model, and leaving the model alone."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quantflow.graph.edit import cut_between, with_outputs
from quantflow.graph.model_io import model_bytes

from .models import build, ops, rand, run

W, W2 = rand(4, 4), rand(4, 4, seed=1)


@pytest.fixture
def model() -> ir.Model:
    proto = build(
        "(float[2,4] x) => (float[2,4] y, float[2,4] b) "
        "{ a = MatMul(x, w) b = Relu(a) c = MatMul(b, w2) d = Tanh(c) y = Add(d, b) }",
        {"w": W, "w2": W2},
    )
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def test_a_part_reads_its_inputs_and_computes_its_outputs(model: ir.Model) -> None:
    part = cut_between(model, ["b"], ["d"])
    assert ops(part) == ["MatMul", "Tanh"]
    assert [v.name for v in part.graph.inputs] == ["b"]
    assert list(part.graph.initializers) == ["w2"]
    b = rand(2, 4, seed=5)
    np.testing.assert_allclose(run(part, {"b": b})["d"], np.tanh(b @ W2), atol=1e-6)


def test_the_model_itself_is_not_changed(model: ir.Model) -> None:
    before = model_bytes(model)
    cut_between(model, ["b"], ["y"])
    cut_between(model, ["x"], ["b", "c"])
    with_outputs(model, ["c"])
    assert model_bytes(model) == before


def test_an_input_may_be_an_output_of_the_model(model: ir.Model) -> None:
    part = cut_between(model, ["b"], ["y"])
    b = rand(2, 4, seed=5)
    np.testing.assert_allclose(run(part, {"b": b})["y"], np.tanh(b @ W2) + b, atol=1e-6)


def test_a_value_that_is_input_and_output_is_computed_under_another_name(model: ir.Model) -> None:
    part = cut_between(model, ["x", "a"], ["a", "c"])
    feeds = {"x": rand(2, 4, seed=3), "a": rand(2, 4, seed=4)}
    found = run(part, feeds)
    assert list(found) == ["a/before", "c"]
    np.testing.assert_allclose(found["a/before"], feeds["x"] @ W, atol=1e-6)
    np.testing.assert_allclose(found["c"], np.maximum(feeds["a"], 0) @ W2, atol=1e-6)


def test_an_if_that_is_not_needed_leaves_nothing_behind() -> None:
    proto = build(
        "(float[2,4] x, bool f) => (float[2,4] y, float[2,4] z) { a = MatMul(x, w) b = Relu(a) "
        "y = If(f) <then_branch = g1 () => (float[2,4] u) { u = Tanh(b) }, "
        "else_branch = g2 () => (float[2,4] v) { v = Sin(b) }> z = Neg(x) }",
        {"w": W},
    )
    model = ir.from_proto(onnx.ModelProto.FromString(proto.SerializeToString()))
    for part in (with_outputs(model, ["z"]), cut_between(model, ["x"], ["z"])):
        assert ops(part) == ["Neg"] and not part.graph.initializers
    whole = with_outputs(model, ["y"])
    assert ops(whole) == ["MatMul", "Relu", "If"]
    x = rand(2, 4)
    found = run(whole, {"x": x, "f": np.array(True)})
    np.testing.assert_allclose(found["y"], np.tanh(np.maximum(x @ W, 0)), atol=1e-6)
