"""Padding by name, written out, is the padding that onnxruntime applies."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from quantflow.graph.bucket import bucket_model
from quantflow.graph.passes.resolve_auto_pad import resolve_auto_pad

from .models import assert_close, attribute, build, canonical, nodes_of, rand, run


def unnamed(op_type: str, attributes: str, kernel: tuple[int, int], free: bool = True) -> ir.Model:
    """A layer on (batch, 2, height, width) in canonical form."""
    weights = {"w": rand(3, 2, *kernel)} if op_type == "Conv" else {"w": rand(2, 3, *kernel)}
    operands = "x" if op_type == "AveragePool" else "x, w"
    dims = "batch,2,height,width" if free else "1,2,9,8"
    text = f"(float[{dims}] x) => (float[b,c,h,v] y) {{ y = {op_type}<{attributes}>({operands}) }}"
    model = build(text, {} if op_type == "AveragePool" else weights)
    return canonical(model)[0]


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
@pytest.mark.parametrize("kernel", [(1, 1), (2, 3), (3, 4), (5, 2)])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose", "AveragePool"])
def test_every_mode_gives_what_onnxruntime_gives(op_type, strides, kernel, mode):
    if op_type == "AveragePool" and any(s > k for s, k in zip(strides, kernel, strict=True)):
        pytest.skip("onnxruntime refuses it")
    attributes = f'strides=[{strides[0]},{strides[1]}], auto_pad="{mode}"'
    if op_type == "AveragePool":
        attributes += f", kernel_shape=[{kernel[0]},{kernel[1]}], count_include_pad=1"
    model = unnamed(op_type, attributes, kernel)
    feeds = {"x": rand(1, 2, 9, 8, seed=3)}
    static = bucket_model(model, {"batch": 1, "height": 9, "width": 8})
    (node,) = nodes_of(static, op_type)
    growing = op_type == "ConvTranspose" and mode.startswith("SAME")
    if growing and any(s > k for s, k in zip(strides, kernel, strict=True)):
        assert attribute(node, "auto_pad") == mode  # no pads make an output of that size
    elif mode != "NOTSET":
        assert attribute(node, "auto_pad") is None and len(attribute(node, "pads")) == 4
    assert_close(run(static, feeds), run(model, feeds))


@pytest.mark.parametrize("dilations", [(2, 1), (3, 2)])
def test_a_dilated_kernel_spans_more(dilations):
    attributes = f'dilations=[{dilations[0]},{dilations[1]}], auto_pad="SAME_UPPER"'
    model = unnamed("Conv", attributes, (3, 3), free=False)
    static = bucket_model(model, {})
    (node,) = nodes_of(static, "Conv")
    before, after = dilations[0], dilations[1]  # (k - 1) * dilation / 2
    assert attribute(node, "pads") == (before, after, before, after)


def test_a_dilated_conv_that_pads_by_name_runs_where_its_size_is_known():
    # onnxruntime refuses it as it is, so the same with pads is held against it.
    form = "(float[n,2,8,9] x) => (float[n,3,8,9] y) {{ y = Conv<dilations=[2,1], {}>(x, w) }}"
    weights, feeds = {"w": rand(3, 2, 3, 3)}, {"x": rand(4, 2, 8, 9, seed=3)}
    named = canonical(build(form.format('auto_pad="SAME_UPPER"'), weights))[0]
    assert_close(run(named, feeds), run(build(form.format("pads=[2,1,2,1]"), weights), feeds))


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("mode", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_an_output_size_becomes_pads(mode, extra):
    # (in - 1) * stride + kernel = 8 * 2 + 4 = 20 and 7 * 2 + 3 = 17.
    attributes = f'output_shape=[{17 + extra},16], strides=[2,2], auto_pad="{mode}"'
    model = unnamed("ConvTranspose", attributes, (4, 3), free=False)
    static = bucket_model(model, {})
    (node,) = nodes_of(static, "ConvTranspose")
    assert attribute(node, "output_shape") is None
    pads = attribute(node, "pads")
    assert pads[0] + pads[2] == 3 - extra and pads[1] + pads[3] == 1
    feeds = {"x": rand(1, 2, 9, 8, seed=4)}
    assert_close(run(static, feeds), run(model, feeds))


def test_the_canonical_model_keeps_the_name_since_its_shapes_are_free():
    model = unnamed("Conv", 'auto_pad="SAME_UPPER"', (3, 3))
    assert resolve_auto_pad(model) == 0
    pads = [
        attribute(nodes_of(bucket_model(model, {"batch": 1, "height": h, "width": 4}), "Conv")[0],
                  "pads")
        for h in (8, 9)
    ]  # fmt: skip
    assert pads == [(1, 1, 1, 1)] * 2


def test_pads_that_are_numbers_already_are_left_alone():
    model = unnamed("Conv", "pads=[1,0,2,1]", (3, 3), free=False)
    assert resolve_auto_pad(model) == 0
    assert attribute(nodes_of(model, "Conv")[0], "pads") == (1, 0, 2, 1)
    assert np.isfinite(run(model, {"x": rand(1, 2, 9, 8)})["y"]).all()
