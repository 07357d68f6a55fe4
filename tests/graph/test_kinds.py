"""The kinds of layer: what they read, when they stay float, and their weights as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.model_record import Layer, ModelRecord, Window
from quantflow.graph.kinds.table import weight_from_matrix, weight_matrix
from quantflow.graph.layers import describe_model

from .models import build, canonical, rand, run

IMAGE = "(float[batch,4,8,8] x) => (float[b,c,h,v] y)"
CONVS = {
    "Conv": {"w": rand(6, 4, 3, 3)},
    "ConvTranspose": {"w": rand(4, 6, 3, 3)},
}


def described(text: str, weights: dict[str, Any], **options: Any) -> ModelRecord:
    result, notes = canonical(build(text, weights))
    dims = {"batch": 1} if "batch" in text else {}
    return describe_model(result, dims, mask=None, notes=notes, **options)


def layer(record: ModelRecord, name: str = "n_y") -> Layer:
    return next(x for x in record.layers if x.name == name)


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_a_convolution_names_its_bias_and_window(op_type: str) -> None:
    text = f"{IMAGE} {{ y = {op_type}<pads=[1,0,2,1], strides=[2,1]>(x, w, c) }}"
    found = layer(described(text, {**CONVS[op_type], "c": rand(6)}))
    assert (found.input, found.bias, found.bias_node, found.output) == ("x", "c", None, "y")
    assert found.role == "conv" and found.float_reason == "" and found.group == "n_y"
    assert found.window == Window(
        kernel=(3, 3), strides=(2, 1), dilations=(1, 1), pads=(1, 0, 2, 1), groups=1
    )


def test_the_window_is_that_of_the_first_bucket() -> None:
    text = f'{IMAGE} {{ y = Conv<auto_pad="SAME_LOWER", strides=[3,3], group=2>(x, w) }}'
    window = layer(described(text, {"w": rand(6, 2, 4, 4)})).window
    # ceil(8 / 3) = 3 outputs reach over 2 * 3 + 4 = 10: two more than there are.
    assert window is not None and window.pads == (1, 1, 1, 1) and window.groups == 2


@pytest.mark.parametrize(
    ("text", "weights", "says"),
    [
        ("(float[1,4,8] x) => (float[b,c,h] y) { y = ConvTranspose(x, w) }",
         {"w": rand(4, 6, 3)}, "4-D weight"),
        ("(float[1,4,3,3,3] x) => (float[b,c,h,v,u] y) { y = ConvTranspose(x, w) }",
         {"w": rand(4, 6, 2, 2, 2)}, "4-D weight"),
        (f"{IMAGE} {{ y = ConvTranspose<dilations=[1,2]>(x, w) }}", CONVS["ConvTranspose"],
         "dilation 1"),
        (f'{IMAGE} {{ y = ConvTranspose<auto_pad="SAME_UPPER", strides=[4,4]>(x, w) }}',
         CONVS["ConvTranspose"], "auto_pad"),
        (f"{IMAGE} {{ m = ReduceMean<keepdims=0>(x, axes) y = Conv(x, w, m) }}",
         {"w": rand(4, 4, 3, 3), "axes": np.int64([0, 2, 3])}, "bias is not constant"),
    ],
)  # fmt: skip
def test_what_the_dialect_lacks_stays_float_and_says_why(
    text: str, weights: dict[str, Any], says: str
) -> None:
    text = text.replace(" y) {", " y, float[m,n] z) { z = MatMul(u, v)").replace(
        " x) =>", " x, float[2,3] u) =>"
    )
    record = described(text, {**weights, "v": rand(3, 3)})
    found = layer(record)
    assert says in found.float_reason and found.group == ""
    assert layer(record, "n_z").group == "n_z"


POOLED = "(float[batch,4,8,8] x) => (float[b,c,h,v] y) { r = Conv(x, w) y = AveragePool<%s>(r) }"


def test_average_pooling_and_products_of_variables_count_only_when_they_are_named() -> None:
    weights = {"w": rand(4, 4, 1, 1)}
    text = POOLED % "kernel_shape=[2,2]"
    assert [x.op_type for x in described(text, weights).layers] == ["Conv"]
    found = layer(described(text, weights, optional=("AveragePool",)))
    assert (found.input, found.weight, found.bias, found.role) == ("r", "", None, "other")
    assert found.macs == 0 and found.group == "n_y" and not found.float_reason
    pair = (
        "(float[batch,4,5] x) => (float[b,c,h] y) "
        "{ q = MatMul(x, w) k = Transpose<perm=[0,2,1]>(x) y = MatMul(q, k) }"
    )
    weights = {"w": rand(5, 5)}
    assert [x.name for x in described(pair, weights).layers] == ["n_q"]
    record = described(pair, weights, optional=("MatMul",))
    found = layer(record)
    assert (found.input, found.second_input, found.weight) == ("q", "k", "")
    assert found.macs == 0 and record.tensors == ("x", "q", "k")


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ("kernel_shape=[2,2], count_include_pad=1, pads=[1,1,1,1]", ""),
        ("kernel_shape=[2,2], pads=[1,1,1,1]", "another number"),
        ("kernel_shape=[3,3], strides=[2,2], ceil_mode=1", "rounds"),
    ],
)
def test_average_pooling_is_int8_where_it_divides_by_one_number(attributes: str, says: str) -> None:
    record = described(POOLED % attributes, {"w": rand(4, 4, 1, 1)}, optional=("AveragePool",))
    reason = layer(record).float_reason
    assert says in reason and bool(says) == bool(reason)


@settings(max_examples=40)
@given(
    op_type=st.sampled_from(["Conv", "ConvTranspose"]),
    groups=st.integers(1, 3),
    inner=st.integers(1, 3),
    width=st.integers(1, 3),
    kernel=st.integers(1, 3),
)
def test_a_weight_matrix_has_a_column_an_output_channel(
    op_type: str, groups: int, inner: int, width: int, kernel: int
) -> None:
    outer, channels = groups * width, groups * inner
    shape = (outer, inner, kernel, 1) if op_type == "Conv" else (channels, width, kernel, 1)
    weight = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    matrix = weight_matrix(weight, op_type, groups)
    assert matrix.shape == (inner * kernel, outer)
    assert np.array_equal(weight_from_matrix(matrix, shape, op_type, groups), weight)
    # What onnxruntime makes of a constant input shows which numbers an output channel sums.
    text = f"(float[1,{channels},{kernel},1] x) => (float[b,c,h,v] y) " \
           f"{{ y = {op_type}<group={groups}>(x, w) }}"  # fmt: skip
    y = run(build(text, {"w": weight}), {"x": np.ones((1, channels, kernel, 1), np.float32)})["y"]
    middle = y[0, :, 0 if op_type == "Conv" else kernel - 1, 0]
    assert np.array_equal(middle, matrix.sum(axis=0))
