"""The QDQ twin is valid, standard ONNX and holds the deploy model's integers."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from quantflow.export.qdq import Side, qdq_model
from tests.export.builders import (
    Exported,
    array_of,
    export,
    linear,
    node_of,
    onnx_model,
    run,
    run_deployed_linear,
)


@settings(max_examples=20)
@given(
    k=st.integers(1, 9),
    n=st.integers(1, 9),
    kind=st.sampled_from(["MatMul", "Gemm"]),
    biased=st.booleans(),
    symmetric=st.booleans(),
    granularity=st.sampled_from(["per-channel", "per-tensor"]),
    seed=st.integers(0, 2**16),
)
def test_the_twin_is_valid_and_agrees_with_the_deploy_file(
    k, n, kind, biased, symmetric, granularity, seed
):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(k, n)).astype(np.float32)
    b = rng.normal(size=n).astype(np.float32) if biased else None
    exported = export(
        linear(w, b, kind), {"x": (-1.5, 4.0)}, symmetric=symmetric, granularity=granularity
    )
    onnx.checker.check_model(ir.to_proto(exported.qdq), full_check=True)
    # Steps plus a quarter stay away from rounding ties, where both may differ by a step.
    entry = exported.factors_of("l")
    x = ((rng.integers(-300, 300, (4, k)) + 0.25) * entry.scale_d).astype(np.float32)
    expected = run_deployed_linear(exported.deploy, x, fp19=False)
    for optimize in (True, False):
        y = run(exported.qdq, {"x": x}, optimize=optimize)["y"]
        tolerance = 1e-5 * np.abs(expected).max() + 1e-6
        assert np.abs(y - expected).max() <= tolerance


@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
def test_the_twin_holds_the_same_integers_scales_and_zero_points(kind):
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(2, 6, 5)).astype(np.float32)[0], np.ones(5, np.float32)
    exported = export(linear(w, b, kind), {"x": (-1.0, 3.0)})
    twin, deploy, entry = exported.qdq, exported.deploy, exported.factors_of("l")
    quantize = node_of(twin, "QuantizeLinear")
    assert array_of(twin, quantize.inputs[1]) == np.float32(entry.scale_d)
    zero_point = array_of(twin, quantize.inputs[2])
    assert zero_point == entry.offset_d and zero_point.dtype == np.int8
    product = node_of(twin, kind)
    weight = product.inputs[1].producer()
    assert weight.attributes["axis"].value == 1
    int8_weight = array_of(deploy, node_of(deploy, kind).inputs[1])
    assert np.array_equal(array_of(twin, weight.inputs[0]), int8_weight)
    assert np.array_equal(array_of(twin, weight.inputs[1]), np.float32(entry.scale_w))
    biased, index = (product, 2) if kind == "Gemm" else (node_of(twin, "Add"), 1)
    bias = biased.inputs[index].producer()
    int32 = (
        node_of(deploy, "Gemm").inputs[2] if kind == "Gemm" else node_of(deploy, "Add").inputs[1]
    )
    assert np.array_equal(array_of(twin, bias.inputs[0]), array_of(deploy, int32))


# --- one side alone -----------------------------------------------------------------------------


def one_side(exported: Exported, side: Side) -> ir.Model:
    return qdq_model(exported.model, exported.record, exported.factors, side)


@settings(max_examples=30)
@given(
    k=st.integers(1, 40),
    n=st.integers(1, 9),
    kind=st.sampled_from(["MatMul", "Gemm"]),
    biased=st.booleans(),
    symmetric=st.booleans(),
    granularity=st.sampled_from(["per-channel", "per-tensor"]),
    seed=st.integers(0, 2**16),
)
def test_one_side_alone_is_fake_quantization_and_biases_are_left_alone(
    k, n, kind, biased, symmetric, granularity, seed
):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(k, n)).astype(np.float32)
    b = rng.normal(size=n).astype(np.float32) if biased else None
    low, high = -1.5, 4.0
    exported = export(
        linear(w, b, kind), {"x": (low, high)}, symmetric=symmetric, granularity=granularity
    )
    largest = np.abs(w).max(axis=0 if granularity == "per-channel" else None)
    scale_w = np.float32(largest) / np.float32(127)
    rounded_w = np.clip(np.rint(w / scale_w), -128, 127) * scale_w
    # 255 steps around 0, or 256 from the low to the high end.
    scale = np.float32(high / 127 if symmetric else (high - low) / 255)
    zero = 0 if symmetric else np.rint(-128 - low / scale)
    # Steps and a quarter of one stay away from ties.
    x = ((rng.integers(-150, 150, (4, k)) + 0.25) * scale).astype(np.float32)
    rounded_x = (np.clip(np.rint(x / scale) + zero, -128, 127) - zero) * scale

    added = 0 if b is None else b
    expected = {"weights": x @ rounded_w + added, "activations": rounded_x @ w + added}
    for side, y in expected.items():
        twin = one_side(exported, side)
        onnx.checker.check_model(ir.to_proto(twin), full_check=True)
        # Optimized as well: nothing that onnxruntime fuses may quantize the other side.
        for optimize in (True, False):
            found = run(twin, {"x": x}, optimize=optimize)["y"]
            assert np.abs(found - y).max() <= 1e-5 * np.abs(y).max() + 1e-5


@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
def test_one_sided_twins_hold_nothing_of_the_other_side(kind):
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(6, 5)).astype(np.float32), np.ones(5, np.float32)
    exported = export(linear(w, b, kind), {"x": (-1.0, 3.0)})
    weights, activations = one_side(exported, "weights"), one_side(exported, "activations")
    product = node_of(weights, kind)
    assert product.inputs[0].name == "x"
    rounded, entry = array_of(weights, product.inputs[1]), exported.factors_of("l")
    assert rounded.dtype == np.float32
    steps = rounded / np.float32(entry.scale_w)
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-4)
    assert 0 < np.abs(rounded - w).max() <= 0.51 * max(entry.scale_w)
    product = node_of(activations, kind)
    np.testing.assert_array_equal(array_of(activations, product.inputs[1]), w)
    assert product.inputs[0].producer().op_type == "DequantizeLinear"
    for twin in (weights, activations):
        assert any(np.array_equal(x, b) for x in constants(twin))
        assert not any(x.dtype == np.int32 for x in constants(twin))
    assert all(x.dtype == np.float32 for x in constants(weights))
    assert not any(np.array_equal(x, w) for x in constants(weights))


def constants(model: ir.Model) -> list[np.ndarray]:
    return [value.const_value.numpy() for value in model.graph.initializers.values()]


def test_rounded_weights_of_convolutions_keep_their_shape_and_their_channels():
    rng = np.random.default_rng(0)
    conv = rng.normal(size=(6, 2, 3, 3)).astype(np.float32)
    back = rng.normal(size=(6, 2, 2, 2)).astype(np.float32)
    # Channels of very different size, so that a scale along the wrong axis would show.
    conv *= 10.0 ** -np.arange(6, dtype=np.float32)[:, None, None, None]
    back *= 10.0 ** -np.arange(2, dtype=np.float32)[:, None, None]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], name="c", group=2),
        helper.make_node("ConvTranspose", ["h", "v"], ["y"], name="t", group=3),
    ]
    model = onnx_model(nodes, {"x": [1, 4, 5, 5]}, ["y"], {"w": conv, "v": back}, opset=18)
    exported = export(model, {"x": (-1.0, 1.0), "h": (-4.0, 4.0)})
    twin = one_side(exported, "weights")
    # A transposed one's weight is (C, N / groups, ...): a channel is a group and a second index.
    split = back.reshape(3, 2, 2, 2, 2)
    expected = {
        "Conv": rounded_along(conv, (1, 2, 3)),
        "ConvTranspose": rounded_along(split, (1, 3, 4)).reshape(back.shape),
    }
    for op_type, weight in expected.items():
        found = array_of(twin, node_of(twin, op_type).inputs[1])
        np.testing.assert_allclose(found, weight, rtol=1e-6)


def rounded_along(w: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    scale = np.abs(w).max(axis=axes, keepdims=True) / np.float32(127)
    return np.rint(w / scale) * scale
