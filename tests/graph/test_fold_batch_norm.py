"""BatchNormalization: float64 and one rounding, folded or written as Mul and Add."""

from __future__ import annotations

import numpy as np
import pytest

from .models import assert_canonical, assert_close, build, canonical, check_same, ops, rand, run

EPSILON = np.float32(1e-5)
NORM = {
    "s": rand(6, seed=11),
    "t": rand(6, seed=12),
    "mean": rand(6, seed=13) * 10,
    "var": np.abs(rand(6, seed=14)) * 50,
}
TAIL = "y = BatchNormalization<epsilon=0.00001>(c0, s, t, mean, var)"


def scale_and_shift(norm: dict[str, np.ndarray] = NORM) -> tuple[np.ndarray, np.ndarray]:
    """The definition, in float64."""
    s, t, mean, var = (norm[name].astype(np.float64) for name in ("s", "t", "mean", "var"))
    scale = s / np.sqrt(var + np.float64(EPSILON))
    return scale, t - mean * scale


def constants(text: str, weights: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Weight and bias that folding gives the one layer of a graph."""
    result, _ = canonical(build(text, {**NORM, **weights}))
    (node,) = result.graph
    found = [value.const_value for value in node.inputs[1:] if value is not None]
    return [tensor.numpy() for tensor in found if tensor is not None]


def test_weight_and_bias_of_a_convolution_are_rounded_once() -> None:
    weight, bias = rand(6, 2, 3, 3, seed=1), rand(6, seed=2)
    found = constants(
        f"(float[b,2,6,6] x) => (float[b,6,4,4] y) {{ c0 = Conv(x, k, c) {TAIL} }}",
        {"k": weight, "c": bias},
    )
    scale, shift = scale_and_shift()
    exact = weight.astype(np.float64) * scale[:, None, None, None]
    assert np.array_equal(found[0], exact.astype(np.float32))
    assert np.array_equal(found[1], (shift + bias * scale).astype(np.float32))


def test_alpha_and_beta_of_a_gemm_join_in_the_one_rounding() -> None:
    weight, bias = rand(6, 4, seed=1), rand(6, seed=2)
    found = constants(
        "(float[b,4] x) => (float[b,6] y) "
        f"{{ c0 = Gemm<transB=1, alpha=0.3, beta=0.7>(x, k, c) {TAIL} }}",
        {"k": weight, "c": bias},
    )
    alpha, beta = np.float64(np.float32(0.3)), np.float64(np.float32(0.7))
    scale, shift = scale_and_shift()
    exact = alpha * weight.astype(np.float64) * scale[:, None]
    assert np.array_equal(found[0], exact.astype(np.float32).T)
    assert np.array_equal(found[1], (shift + beta * bias * scale).astype(np.float32))


@pytest.mark.parametrize(
    ("layer", "shape", "image"),
    [
        ("Conv<group=2>(x, k)", (6, 2, 3, 3), "6,6"),
        ("Conv(x, k)", (6, 4, 3), "8"),
        ("ConvTranspose<group=2>(x, k)", (4, 3, 3, 3), "6,6"),
        ("ConvTranspose(x, k)", (4, 6, 2, 2, 2), "4,4,4"),
    ],
)
def test_every_convolution_computes_what_the_pair_did(
    layer: str, shape: tuple[int, ...], image: str
) -> None:
    model = build(
        f"(float[b,4,{image}] x) => (float y) {{ c0 = {layer} {TAIL} }}",
        {"k": rand(*shape, seed=1), **NORM},
    )
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    x = rand(2, 4, *map(int, image.split(",")), seed=3)
    result, _ = canonical(model)
    assert len(list(result.graph)) == 1
    assert_close(run(result, {"x": x}), run(model, {"x": x}), 1e-5)


def test_a_norm_with_no_layer_to_fold_it_into_is_a_multiplication_and_an_addition() -> None:
    model = build(
        f"(float[b,6,5] x) => (float[b,6,5] y) {{ c0 = Relu(x) {TAIL} }}",
        NORM,
    )
    result, notes = canonical(model)
    assert_canonical(result, 18)
    assert ops(result) == ["Relu", "Mul", "Add"] and any("Mul and Add (1x)" in x for x in notes)
    x = rand(2, 6, 5, seed=3)
    scale, shift = scale_and_shift()
    expected = np.maximum(x, 0) * scale[:, None] + shift[:, None]
    assert_close(run(result, {"x": x}), {"y": expected.astype(np.float32)}, 1e-6)
    assert_close(run(result, {"x": x}), run(model, {"x": x}), 1e-5)


@pytest.mark.parametrize(
    "body",
    [
        f"c0 = Conv(x, k) z = Relu(c0) {TAIL}",
        f"c0 = Conv(x, k) z = Identity(c0) {TAIL}",
        f"k0 = Relu(x) c0 = Conv(x, k0) z = Relu(c0) {TAIL}",
    ],
)
def test_a_layer_whose_result_is_read_elsewhere_keeps_its_weight(body: str) -> None:
    variable = "k0" in body
    given = "float[6,4,3] x" if variable else "float[b,4,8] x"
    model = build(
        f"({given}) => (float[b,6,w] y, float[b,6,w] z) {{ {body} }}",
        {**NORM} if variable else {**NORM, "k": rand(6, 4, 3, seed=1)},
    )
    feeds = {"x": rand(6, 4, 3, seed=2) if variable else rand(2, 4, 8, seed=2)}
    result = check_same(model, feeds, tolerance=1e-5)
    assert ops(result).count("Mul") == 1


def test_a_norm_whose_parameters_are_computed_is_left_alone() -> None:
    model = build(
        "(float[b,6,5] x, float[6] s) => (float[b,6,5] y) "
        "{ y = BatchNormalization(x, s, t, mean, var) }",
        {name: array for name, array in NORM.items() if name != "s"},
    )
    feeds = {"x": rand(2, 6, 5), "s": NORM["s"]}
    assert ops(check_same(model, feeds, tolerance=1e-5)) == ["BatchNormalization"]


def test_weights_of_denormals_and_variances_beyond_fp16_meet_in_ordinary_numbers() -> None:
    norm = {**NORM, "var": np.float32([1e5, 7e4, 0, 1e-12, 1e-30, 6.6e4])}
    weight = rand(6, 2, 3, 3, seed=1) * np.float32(1e-41)
    result, _ = canonical(
        build(
            f"(float[b,2,6,6] x) => (float[b,6,4,4] y) {{ c0 = Conv(x, k) {TAIL} }}",
            {"k": weight, **norm},
        )
    )
    scale, shift = scale_and_shift(norm)
    x = rand(2, 2, 6, 6, seed=4)
    found = run(result, {"x": x})["y"]
    assert np.isfinite(found).all()
    # The products are far below float32's smallest step, so that the shifts alone remain.
    assert np.allclose(found, shift.astype(np.float32)[:, None, None], rtol=1e-6)
    assert scale.max() > 1


# --- biases added behind convolutions ----------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "bias"),
    [
        ("Conv(x, k)", (1, 6, 1, 1)),
        ("Conv(x, k)", (6, 1, 1)),
        ("Conv(x, k)", (1,)),
        ("Conv(x, k, own)", (1, 6, 1, 1)),
        ("ConvTranspose<group=2>(x, k)", (1, 6, 1, 1)),
        ("ConvTranspose<group=2>(x, k)", ()),
    ],
)
def test_a_constant_a_channel_added_behind_a_convolution_is_its_bias(
    layer: str, bias: tuple[int, ...]
) -> None:
    shape = (4, 3, 3, 3) if "Transpose" in layer else (6, 4, 3, 3)
    for order in ("m, c", "c, m"):
        model = build(
            f"(float[b,4,6,6] x) => (float[b,6,h,w] y) {{ m = {layer} y = Add({order}) }}",
            {"k": rand(*shape, seed=1), "c": rand(*bias, seed=2), "own": rand(6, seed=5)},
        )
        result = check_same(model, {"x": rand(2, 4, 6, 6, seed=3)}, tolerance=1e-5)
        assert ops(result) == [layer.split("(")[0].split("<")[0]]
        assert [node.name for node in result.graph] == ["n_m"]


@pytest.mark.parametrize(
    ("bias", "outputs"),
    [((1, 6, 1, 4), ""), ((2, 6, 1, 1), ""), ((4,), ""), ((1, 6, 1, 1), ", float[b,6,4,4] m")],
)
def test_anything_else_that_is_added_stays_an_addition(bias: tuple[int, ...], outputs: str) -> None:
    model = build(
        f"(float[b,4,6,6] x) => (float[b,6,4,4] y{outputs}) {{ m = Conv(x, k) y = Add(m, c) }}",
        {"k": rand(6, 4, 3, 3, seed=1), "c": rand(*bias, seed=2)},
    )
    assert "Add" in ops(check_same(model, {"x": rand(2, 4, 6, 6, seed=3)}, tolerance=1e-5))


def test_a_bias_apart_and_a_norm_behind_it_end_in_one_convolution() -> None:
    model = build(
        "(float[b,4,6,6] x) => (float[b,6,h,w] y) "
        f"{{ m = ConvTranspose<group=2>(x, k) c0 = Add(m, c) {TAIL} }}",
        {"k": rand(4, 3, 2, 2, seed=1), "c": rand(1, 6, 1, 1, seed=2), **NORM},
    )
    result = check_same(model, {"x": rand(2, 4, 6, 6, seed=3)}, tolerance=1e-5)
    assert ops(result) == ["ConvTranspose"]
