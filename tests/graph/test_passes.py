"""Rewrites against onnxruntime on the graph as it was."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantflow.graph.edit import opset

from .models import assert_close, build, canonical, check_same, nodes_of, ops, rand, run

CANN: list[Literal["2026", "8.0"]] = ["2026", "8.0"]


# --- Gemm --------------------------------------------------------------------------------------

GEMM = list(product((0, 1), (0, 1), (1.0, 0.5), (1.0, -2.0), ("none", "vector", "matrix", "one")))


@pytest.mark.parametrize(("trans_a", "trans_b", "alpha", "beta", "bias"), GEMM)
def test_every_form_of_gemm_becomes_the_plain_one(
    trans_a: int, trans_b: int, alpha: float, beta: float, bias: str
) -> None:
    # C16: weights leave as (K, N) whatever transB was.
    weight = rand(5, 3, seed=1)
    weights = {"w": np.ascontiguousarray(weight.T) if trans_b else weight}
    shapes = {"vector": (3,), "matrix": (4, 3), "one": (1,)}
    if bias != "none":
        weights["c"] = rand(*shapes[bias], seed=2)
    x = rand(4, 5, seed=3)
    model = build(
        f"(float[m,k] x) => (float[r,s] y) {{ y = Gemm<transA={trans_a}, transB={trans_b}, "
        f"alpha={alpha:.1f}, beta={beta:.1f}>(x, w{'' if bias == 'none' else ', c'}) }}",
        weights,
    )
    result = check_same(model, {"x": x.T.copy() if trans_a else x})
    (gemm,) = nodes_of(result, "Gemm")
    assert not gemm.attributes and gemm.name == "n_y"
    assert ops(result) == ["Transpose"] * trans_a + ["Gemm"]
    value = gemm.inputs[1]
    assert value is not None and value.const_value is not None
    assert np.allclose(value.const_value.numpy(), weight * np.float32(alpha))


def test_a_weight_that_two_gemms_read_in_different_forms_serves_both() -> None:
    model = build(
        "(float[m,4] x) => (float[m,4] y, float[m,4] z, float[m,4] v) "
        "{ y = Gemm<transB=1>(x, w, c) z = Gemm<alpha=3.0, beta=2.0>(x, w, c) v = MatMul(x, w) }",
        {"w": rand(4, 4), "c": rand(4, seed=1)},
    )
    check_same(model, {"x": rand(3, 4, seed=2)})


def test_a_gemm_that_scales_a_variable_is_left_as_it_is() -> None:
    model = build(
        "(float[m,4] x, float[n] c) => (float[m,3] y, float[m,k] z) "
        "{ y = Gemm<beta=0.5>(x, w, c) z = Gemm<transB=1, alpha=0.5>(x, x) }",
        {"w": rand(4, 3)},
    )
    result = check_same(model, {"x": rand(3, 4, seed=2), "c": rand(3, seed=3)})
    assert ops(result) == ["Gemm", "Gemm"]


# --- BatchNorm ---------------------------------------------------------------------------------

NORM = {
    "s": rand(3, seed=11),
    "t": rand(3, seed=12),
    "mean": rand(3, seed=13),
    "var": np.abs(rand(3, seed=14)) + np.float32(0.1),
}
IMAGE = "(float[b,2,6,6] x) => (float[b,3,h,w] y)"


@pytest.mark.parametrize(
    ("text", "shape", "weights"),
    [
        ("Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(x, k)", (3, 2, 3, 3), {}),
        ("Conv<kernel_shape=[3,3], strides=[2,2]>(x, k, c)", (3, 2, 3, 3), {"c": rand(3)}),
        ("ConvTranspose(x, k)", (2, 3, 3, 3), {}),
        ("ConvTranspose(x, k, c)", (2, 3, 3, 3), {"c": rand(3)}),
    ],
)
def test_batch_normalization_is_folded_into_a_convolution(
    text: str, shape: tuple[int, ...], weights: dict[str, np.ndarray]
) -> None:
    model = build(
        f"{IMAGE} {{ c0 = {text} y = BatchNormalization<epsilon=0.01>(c0, s, t, mean, var) }}",
        {"k": rand(*shape, seed=1), **weights, **NORM},
    )
    result = check_same(model, {"x": rand(2, 2, 6, 6, seed=2)}, tolerance=1e-5)
    assert ops(result) == [text.split("(")[0].split("<")[0]]


@pytest.mark.parametrize(
    "gemm",
    ["Gemm<transB=1>(x, k)", "Gemm<transB=1>(x, k, c)", "Gemm<alpha=0.5, beta=2.0>(x, k, c)"],
)
def test_batch_normalization_is_folded_into_a_gemm(gemm: str) -> None:
    weight = rand(3, 4) if "transB" in gemm else rand(4, 3)
    model = build(
        f"(float[b,4] x) => (float[b,3] y) "
        f"{{ g = {gemm} y = BatchNormalization(g, s, t, mean, var) }}",
        {"k": weight, "c": rand(3, seed=9), **NORM},
    )
    assert ops(check_same(model, {"x": rand(5, 4, seed=2)}, tolerance=1e-5)) == ["Gemm"]


def test_a_convolution_that_something_else_reads_keeps_its_weight() -> None:
    model = build(
        "(float[b,2,6,6] x) => (float[b,3,h,w] y, float[b,3,h,w] c0, float[b,3,h,w] z) "
        "{ r = Relu(x) c0 = Conv(x, k) y = BatchNormalization(c0, s, t, mean, var) "
        "z = Conv(r, k) }",
        {"k": rand(3, 2, 3, 3), **NORM},
    )
    check_same(model, {"x": rand(2, 2, 6, 6, seed=2)}, tolerance=1e-5)


def test_two_convolutions_that_share_a_weight_are_folded_apart_and_keep_their_names() -> None:
    other = {f"{name}2": array + np.float32(1) for name, array in NORM.items()}
    model = build(
        "(float[b,2,6,6] x) => (float[b,3,h,w] y, float[b,3,h,w] z) "
        "{ r = Relu(x) c0 = Conv(x, k) y = BatchNormalization(c0, s, t, mean, var) "
        "c1 = Conv(r, k) z = BatchNormalization(c1, s2, t2, mean2, var2) }",
        {"k": rand(3, 2, 3, 3), **NORM, **other},
    )
    result = check_same(model, {"x": rand(2, 2, 6, 6, seed=2)}, tolerance=1e-5)
    assert [node.name for node in nodes_of(result, "Conv")] == ["n_c0", "n_c1"]


def test_a_variance_beyond_fp16_or_near_zero_is_folded_all_the_same() -> None:
    norm = {**NORM, "var": np.float32([1e-12, 7e4, 0])}
    model = build(
        f"{IMAGE} {{ c0 = Conv(x, k) y = BatchNormalization(c0, s, t, mean, var) }}",
        {"k": rand(3, 2, 3, 3), **norm},
    )
    result = check_same(model, {"x": rand(2, 2, 6, 6, seed=2)}, tolerance=1e-5)
    assert ops(result) == ["Conv"]


# --- Gelu, ReduceL1, ReduceL2, LayerNormalization ----------------------------------------------


@pytest.mark.parametrize("cann", CANN)
@pytest.mark.parametrize("form", ["none", "tanh"])
def test_gelu_is_decomposed_in_the_form_it_asks_for(form: str, cann: Any) -> None:
    model = build(
        f'(float[b,9] x) => (float[b,9] y) {{ y = Gelu<approximate="{form}">(x) }}', opset=20
    )
    result = check_same(model, {"x": rand(7, 9, scale=4)}, cann=cann)
    assert ("Tanh" if form == "tanh" else "Erf") in ops(result) and "Gelu" not in ops(result)


def test_gelu_is_the_erf_of_the_textbook() -> None:
    from scipy.special import erf

    result, notes = canonical(build("(float[b,9] x) => (float[b,9] y) { y = Gelu(x) }", opset=20))
    x = rand(7, 9, scale=4)
    assert_close(run(result, {"x": x}), {"y": (x / 2 * (1 + erf(x / np.sqrt(2)))).astype("f")})
    assert "Gelu decomposed (1x)" in notes and "opset 20 lowered to 18" in notes


REDUCTIONS = [
    ("<axes=[2], keepdims=1>(x)", 11, {}),
    ("<axes=[1,-1], keepdims=0>(x)", 13, {}),
    ("(x)", 13, {}),
    ("<keepdims=1>(x, a)", 18, {"a": np.int64([2])}),
    ("<keepdims=0>(x, a)", 18, {"a": np.int64([1, -1])}),
    ("(x)", 18, {}),
    ("<noop_with_empty_axes=0>(x)", 18, {}),
    ("(x, a)", 20, {"a": np.int64([0])}),
]


@pytest.mark.parametrize("cann", CANN)
@pytest.mark.parametrize("op", ["ReduceL1", "ReduceL2"])
@pytest.mark.parametrize(("form", "version", "weights"), REDUCTIONS)
def test_reduce_norms_compute_the_same_at_every_opset(
    op: str, form: str, version: int, weights: dict[str, np.ndarray], cann: Any
) -> None:
    model = build(
        f"(float[b,3,4] x) => (float[...] y) {{ y = {op}{form} }}".replace("float[...]", "float"),
        weights,
        opset=version,
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    result = check_same(model, {"x": rand(2, 3, 4)}, cann=cann)
    if opset(result) >= 18:  # where the op table has neither
        assert op not in ops(result)


@pytest.mark.parametrize("cann", CANN)
@pytest.mark.parametrize("version", [17, 18, 20])
@pytest.mark.parametrize(("axis", "bias"), [(-1, True), (2, False), (1, True), (-2, False)])
def test_layer_normalization_is_kept_where_it_compiles_and_decomposed_below_17(
    axis: int, bias: bool, version: int, cann: Any
) -> None:
    shape = (5,) if axis in (-1, 2) else (4, 5)
    weights = {"w": rand(*shape, seed=1), "c": rand(*shape, seed=2)}
    model = build(
        f"(float[b,4,5] x) => (float[b,4,5] y) "
        f"{{ y = LayerNormalization<axis={axis}, epsilon=0.01>(x, w{', c' if bias else ''}) }}",
        weights,
        opset=version,
    )
    x = rand(3, 4, 5, seed=3, scale=10)
    result = check_same(model, {"x": x}, cann=cann)
    assert ("LayerNormalization" in ops(result)) == (cann == "2026")
    axes = tuple(range(axis % 3, 3))
    centred = x.astype(np.float64) - x.mean(axes, keepdims=True, dtype=np.float64)
    expected = centred / np.sqrt(np.square(centred).mean(axes, keepdims=True) + 0.01)
    expected = expected * weights["w"] + (weights["c"] if bias else 0)
    assert_close(run(result, {"x": x}), {"y": expected.astype(np.float32)}, 1e-5)


@pytest.mark.parametrize("outputs", [["y", "mu"], ["y", "mu", "iv"], ["y", "", "iv"]])
@pytest.mark.parametrize("read", [False, True])
def test_mean_and_deviation_of_a_decomposed_layer_normalization_are_kept(
    outputs: list[str], read: bool
) -> None:
    # Read by the model's user, or by another node.
    names = [name for name in outputs if name]
    model = build(
        "(float[b,4,5] x) => (float[b,4,5] y) { y = LayerNormalization<epsilon=0.01>(x, w) }",
        {"w": rand(5, seed=1)},
    )
    node = model.graph.node[0]
    node.output[:] = outputs
    del model.graph.output[:]
    for name in names:
        last = f"{name}_read" if read else name
        if read:
            model.graph.node.append(helper.make_node("Neg", [name], [last], f"n_{last}"))
        shape = ["b", 4, 5 if name == "y" else 1]
        model.graph.output.append(helper.make_tensor_value_info(last, TensorProto.FLOAT, shape))
    result = check_same(model, {"x": rand(3, 4, 5, seed=3)}, cann="8.0", tolerance=1e-5)
    assert "LayerNormalization" not in ops(result)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(2, 2), (1, 1.5), (0.5, 0.7), (1, 0.4)])
@pytest.mark.parametrize(
    ("version", "body"),
    [
        (7, 'y = Upsample<mode="MODE", scales=[1.0, 1.0, A, B]>(x)'),
        (9, 'y = Upsample<mode="MODE">(x, s)'),
        (10, 'y = Resize<mode="MODE">(x, s)'),
    ],
)
def test_resizing_before_opset_11_keeps_its_mapping_of_coordinates(
    version: int, body: str, scales: tuple[float, float], mode: str
) -> None:
    if version < 10 and min(scales) < 1:
        pytest.skip("Upsample does not shrink")
    first, second = map(float, scales)
    body = body.replace("MODE", mode).replace("A", f"{first}").replace("B", f"{second}")
    weights = {} if version == 7 else {"s": np.float32([1, 1, *scales])}
    model = build(
        f"(float[b,2,6,6] x) => (float[b,2,h,w] y) {{ {body} }}",
        weights,
        opset=version,
    )
    check_same(model, {"x": rand(3, 2, 6, 6)})
    check_same(model, {"x": rand(3, 2, 6, 6)}, cann="8.0")


def test_rewrites_reach_into_if_bodies() -> None:
    model = build(
        """(float[b,4] x, bool c) => (float[b,4] y) {
        y = If (c) <
          then_branch = t () => (float[b,4] t1) { t1 = Gelu(x) },
          else_branch = e () => (float[b,4] e1) {
            a = Constant<value = int64[1] {1}>() n = ReduceL2(x, a) e1 = Div(x, n) }> }""",
        opset=20,
    )
    for flag in (True, False):
        for cann in CANN:
            check_same(model, {"x": rand(3, 4), "c": np.array(flag)}, cann=cann)


# --- attention masks ---------------------------------------------------------------------------

LOWEST = np.float32(np.finfo(np.float32).min)
SCORES = rand(2, 4, 4, scale=5)
MASK = np.ones((2, 1, 4), np.int64)
MASK[1, 0, 2:] = 0


def fill(result: Any, name: str = "big") -> float:
    return float(result.graph.initializers[name].const_value.numpy())


def mask_model(body: str, outputs: str = "", big: Any = LOWEST) -> Any:
    return build(
        f"(float[b,4,4] s, int64[b,1,4] keep) => (float[b,4,4] y{outputs}) "
        f"{{ m = Cast<to=1>(keep) {body} }}",
        {"one": np.float32(1), "half": np.float32(0.5), "big": np.float32(big)},
    )


@pytest.mark.parametrize(
    "body",
    [
        "i = Sub(one, m) f = Mul(i, big) a = Add(s, f) y = Softmax(a)",
        "k = Greater(m, half) a = Where(k, s, big) y = Softmax(a)",
        "k = Greater(m, half) f = Where(k, half, big) e = Expand(f, size) a = Add(e, s) "
        "y = Softmax(a)",
        "k = Greater(m, half) f = Where(k, half, big) a = Add(s, f) n = Max(a, big) y = Softmax(n)",
    ],
)
@pytest.mark.parametrize("big", [LOWEST, -1e9, -1e5])
def test_a_fill_value_that_only_feeds_a_softmax_is_brought_within_fp16(
    body: str, big: float
) -> None:
    model = mask_model(body, big=big)
    if "size" in body:
        model.graph.initializer.append(numpy_helper.from_array(np.int64([1, 4, 4]), "size"))
    result = check_same(model, {"s": SCORES, "keep": MASK})
    assert fill(result) == -16384.0
    assert "mask fill values beyond fp16 set to 16384 (1x)" in canonical(model)[1]


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("i = Sub(one, m) f = Mul(i, big) a = Add(s, f) y = Softmax(a) z = Add(m, big)",
         ", float[b,1,4] z"),
        ("i = Sub(one, m) f = Mul(i, big) a = Add(s, f) y = Softmax(a)", ", float[b,1,4] f"),
        ("i = Sub(one, m) f = Mul(i, big) a = Add(s, f) q = Tanh(f) y0 = Softmax(a) y = Add(y0, q)",
         ""),
        ("a = Add(s, big) y = Relu(a)", ""),
    ],
)  # fmt: skip
def test_a_constant_that_feeds_anything_else_is_left_alone(body: str, outputs: str) -> None:
    result = check_same(mask_model(body, outputs), {"s": SCORES, "keep": MASK})
    assert fill(result) == LOWEST


@pytest.mark.parametrize(
    ("body", "weights"),
    [
        ("a = Mul(s, t) y = Softmax(a)", {"t": np.float32(1e5)}),  # a temperature
        ("a = Mul(s, t) y = Softmax(a)", {"t": np.float32(-1e5)}),
        ("a = Add(s, t) y = Softmax(a)", {"t": np.float32([1e5, 7e4, 0, -7e4])}),
        ("a = Add(s, t) y = Softmax(a)", {"t": np.full(4, -1e6, np.float32)}),  # a shift of all
        ("a = Sub(t, s) y = Softmax(a)", {"t": np.float32([-1e6, 0, 0, 0])}),
        ("e = Gather(t, i) a = Mul(e, s) y = Softmax(a)", {"t": rand(9, 4, scale=1e6)}),
        ("e = Gather(t, i) a = Add(e, s) y = Softmax(a)", {"t": rand(9, 4, scale=1e6)}),
        # Times what is no mask, as a number of words may be.
        ("c = ReduceSum(s) a = Mul(c, t) y = Softmax(a)", {"t": np.float32([-1e6, 0, 0, 0])}),
        ("a = Where(k, s, t) y = LogSoftmax(a)", {"t": np.float32(-1e9)}),
    ],
)
def test_large_constants_that_are_no_fill_stay(body: str, weights: dict[str, Any]) -> None:
    flags = np.array([True, True, False, True])
    model = build(
        f"(float[b,4,4] s, int64[b,1] i) => (float[b,4,4] y) {{ {body} }}", {**weights, "k": flags}
    )
    feeds = {"s": rand(2, 4, 4, scale=1e-5), "i": np.int64([[1], [5]])}
    result, notes = canonical(model)
    assert not any("mask fill" in note for note in notes)
    assert_close(run(result, feeds), run(model, feeds))


@pytest.mark.parametrize("big", [-65504.0, -1e4])
def test_what_fp16_can_hold_is_left_alone(big: float) -> None:
    model = mask_model("k = Greater(m, half) a = Where(k, s, big) y = Softmax(a)", big=big)
    assert fill(check_same(model, {"s": SCORES, "keep": MASK})) == big


@pytest.mark.parametrize(
    "body",
    [
        "k = Greater(m, half) a = Where(k, s, big) y = Softmax(a)",
        "k = Greater(m, half) f = Where(k, zero, big) a = Add(s, f) y = Softmax(a)",
    ],
)
def test_minus_infinity_in_a_mask_is_brought_within_fp16(body: str) -> None:
    model = mask_model(body, big=-np.inf)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0), "zero"))
    # check_same holds the outputs against those of the original in onnxruntime.
    assert fill(check_same(model, {"s": SCORES, "keep": MASK})) == -16384.0


def test_plus_infinity_and_nan_stay() -> None:
    big = np.float32([-np.inf, np.inf, np.nan, 0])
    model = build(
        "(float[b,4,4] s) => (float[b,4,4] y) { a = Add(s, big) y = Softmax(a) }", {"big": big}
    )
    found = canonical(model)[0].graph.initializers["big"].const_value
    assert found is not None
    np.testing.assert_array_equal(found.numpy(), np.float32([-16384, np.inf, np.nan, 0]))


def test_a_row_that_is_masked_throughout_attends_by_its_scores() -> None:
    model = mask_model("k = Greater(m, half) f = Where(k, zero, big) a = Add(s, f) y = Softmax(a)")
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0), "zero"))
    model.graph.initializer[2].CopyFrom(numpy_helper.from_array(np.float32(-np.inf), "big"))
    feeds = {"s": SCORES, "keep": np.zeros((2, 1, 4), np.int64)}
    assert np.isnan(run(model, feeds)["y"]).all()
    found = run(canonical(model)[0], feeds)["y"]
    # Adding 16384 leaves scores 2**-10 apart.
    scores = np.exp(SCORES - SCORES.max(-1, keepdims=True))
    np.testing.assert_allclose(found, scores / scores.sum(-1, keepdims=True), rtol=4e-3)


def test_only_the_large_elements_of_a_mask_constant_are_changed() -> None:
    causal = np.triu(np.full((4, 4), LOWEST, np.float32), 1) + np.float32(0.25) * np.eye(
        4, dtype=np.float32
    )
    model = build(
        "(float[b,4,4] s) => (float[b,4,4] y) { a = Add(s, big) y = Softmax(a) }", {"big": causal}
    )
    result = check_same(model, {"s": SCORES})
    changed = result.graph.initializers["big"].const_value
    assert changed is not None
    assert np.array_equal(changed.numpy(), np.where(causal < -1e5, np.float32(-16384), causal))
