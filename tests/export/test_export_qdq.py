"""The QDQ twin is valid, standard ONNX and holds the deploy model's integers."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.export.builders import array_of, export, linear, node_of, run, run_deployed_linear


@settings(max_examples=20, deadline=None)
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
