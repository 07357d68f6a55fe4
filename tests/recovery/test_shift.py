"""An addend taken off a tensor, and the model still computes what it did."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.graph.edit import nodes_by_name
from quantflow.graph.kinds.table import channel_axis
from quantflow.recovery.shift import Shift
from tests.graph.models import rand

from .builders import Graph, along_channels, graph
from .zoo import (
    CONVS,
    FUSED,
    FUSED_WEIGHTS,
    GROUPED,
    GROUPED_WEIGHTS,
    HEADS,
    HEADS_WEIGHTS,
    NORM,
    RMS,
    RMS_WEIGHTS,
    Case,
    case,
    images,
    vectors,
)  # fmt: skip

W = {
    "w1": rand(4, 4, scale=0.5), "w2": rand(4, 4, seed=1, scale=0.5), "w6": rand(4, 6, seed=2),
    "b1": rand(4, seed=3), "b2": rand(4, seed=4), "b6": rand(6, seed=5), "b3": rand(1, seed=6),
    "wo": rand(4, 4, seed=7), "bo": rand(4, seed=8), "v6": rand(6, 4, seed=9),
    "half": np.float32(0.5), "one": np.float32(1), "axis": np.int64([2]), "at0": np.int64(0),
}  # fmt: skip
NORMED = "n = LayerNormalization<axis=-1>(x, g, b) "
LINEAR = "m = MatMul(n, w1) i = Add(m, b1) "
BLOCK = NORMED + LINEAR + "r = Relu(i) o = MatMul(r, w2) p = Add(o, b2) "
OUT = "z = MatMul(c2, wo) y = Add(z, bo)"
ONE_BY_ONE = {
    **CONVS, "k1": rand(6, 4, 1, 1, seed=20), "k2": rand(4, 6, 1, 1, seed=21), "k0": rand(4),
    "kg": rand(6, 2, 1, 1, seed=22), "kb": rand(6, seed=23), "k3": rand(4, 4, 1, 1, seed=24),
}  # fmt: skip


def heads(body: str) -> str:
    return vectors(body.replace("y = MatMul(c2, wo)", OUT))


SHIFTED = {
    "normalization": case(vectors(NORMED + "m = MatMul(n, w1) y = Add(b1, m)"), {**NORM, **W},
                          "n", range(4), "n"),
    "normalization of two layers": case(
        vectors(NORMED + LINEAR + "k = MatMul(n, w2) l = Add(k, b2) y = Mul(i, l)"),
        {**NORM, **W}, "n", range(4), "n"),
    "a residual past the block": case(
        vectors(BLOCK + "y = Add(p, n)"), {**NORM, **W}, "n", range(4), "n p"),
    "a residual past the block, the other way round": case(
        vectors(BLOCK + "y = Add(n, p)"), {**NORM, **W}, "n", range(4), "n p"),
    "one gain for two normalizations": case(
        vectors(NORMED + LINEAR + "k = LayerNormalization<axis=2>(i, g, b) l = MatMul(k, w2) "
                "y = Add(l, b)"), {**NORM, **W}, "k", range(4), "k"),
    "a linear layer": case(
        vectors("m = MatMul(x, w6) n = Add(m, b6) o = MatMul(n, v6) y = Add(o, b2)"),
        {**NORM, **W}, "n", range(6), "n"),
    "Gemm": case(
        "(float[5,4] x) => (float[5,4] y) { n = Gemm(x, w6, b6) y = Gemm(n, v6, b2) }",
        W, "n", range(6), "n"),
    "a sum of two layers": case(
        vectors("n = MatMul(x, w1) k = MatMul(x, w2) l = Add(k, b2) s = Add(n, l) "
                "o = MatMul(s, wo) y = Add(o, bo)"), W, "s", range(4), "l"),
    "the first of the vectors": case(
        "(float[2,3,4] x) => (float[2,4] y) { " + NORMED
        + "f = Gather<axis=1>(n, at0) m = MatMul(f, w1) y = Add(m, b1) }",
        {**NORM, **W}, "f", range(4), "n"),
    "heads": case(heads(HEADS), {**HEADS_WEIGHTS, **W, "wo": HEADS_WEIGHTS["wo"]},
                  "c2", range(4), "v"),
    "grouped heads": case(
        heads(GROUPED.replace("v = MatMul(x, wv)", "v0 = MatMul(x, wv) v = Add(v0, b1)")),
        {**W, **GROUPED_WEIGHTS}, "c2", (0, 1, 0, 1, 2, 3, 2, 3), "v"),
    **{f"values by {x}": case(heads(body), {**W, **FUSED_WEIGHTS}, "c2", range(4), "g")
       for x, body in FUSED.items()},
    "convolutions without padding": case(
        images("a = Conv<pads=[1,1,1,1]>(x, w1, b1) y = Conv(a, w2, k0)", "2,4,3,3"),
        ONE_BY_ONE, "a", range(6), "a"),
    "a grouped convolution": case(
        images("a = Conv(x, k1, b1) y = Conv<group=3>(a, kg, kb)", "2,6,5,5"),
        ONE_BY_ONE, "a", range(6), "a"),
    "a residual of convolutions": case(
        images("a = Conv(x, k3, k0) c = Conv(a, k1, b1) r = Relu(c) d = Conv(r, k2, k0) "
               "s = Add(d, a) y = Relu(s)"), ONE_BY_ONE, "a", range(4), "a d"),
    "channels last": case(
        images("a = Conv(x, w1, b1) t = Transpose<perm=[0,2,3,1]>(a) m = MatMul(t, wf) "
               "y = Add(m, bf)", "2,3,3,3"), CONVS, "t", range(6), "a"),
}  # fmt: skip
"""A graph, a tensor of it, its channels' classes, and the nodes whose constants take the addend."""

_END = "q = MatMul(n, w1) y = Add(q, b1)"


def fixed(body: str, tensor: str = "n", outputs: str = "float[2,3,4] y") -> Case:
    weights = {**RMS_WEIGHTS, **NORM, **W}
    return case(f"(float[2,3,4] x) => ({outputs}) {{ {body} }}", weights, tensor, (), "")


FIXED = {
    "a graph's input": fixed("m = MatMul(x, w1) y = Add(m, b1)", "x"),
    "a graph's output": fixed(NORMED + _END, "n", "float[2,3,4] y, float[2,3,4] n"),
    "a layer without a bias": fixed(NORMED + "y = MatMul(n, w1)"),
    "a bias of one number": fixed(NORMED + "m = MatMul(n, w1) y = Add(m, b3)"),
    "one layer of two without a bias": fixed(
        NORMED + LINEAR + "k = MatMul(n, w2) y = Mul(i, k)"),
    "a normalization without a bias": fixed("n = LayerNormalization<axis=-1>(x, g) " + _END),
    "root mean square": fixed(RMS + _END),
    "nothing to take it off": fixed("n = MatMul(x, w2) " + _END),
    "Relu in front": fixed(NORMED.replace("n =", "k =") + "n = Relu(k) " + _END),
    "Tanh beside the layer": fixed(NORMED + LINEAR + "t = Tanh(n) y = Mul(i, t)"),
    "a product beside the layer": fixed(NORMED + LINEAR + "y = Mul(i, n)"),
    "added to itself": fixed(NORMED + LINEAR + "d = Add(n, n) y = Mul(i, d)"),
    "added to what others read": fixed(BLOCK + "s = Add(p, n) y = Mul(s, p)"),
    "added to what has no bias": fixed(
        NORMED + LINEAR + "r = Relu(i) o = MatMul(r, w2) y = Add(o, n)"),
    "added to what is twice added": fixed(BLOCK + "s = Add(p, n) t = Add(n, p) y = Mul(s, t)"),
    "attention that is no average": case(
        heads(HEADS.replace("p = Softmax(s)", "p = Tanh(s)")),
        {**HEADS_WEIGHTS, **W, "wo": HEADS_WEIGHTS["wo"]}, "c2", (), ""),
    "an average along another axis": case(
        heads(HEADS.replace("p = Softmax(s)", "p = Softmax<axis=2>(s)")),
        {**HEADS_WEIGHTS, **W, "wo": HEADS_WEIGHTS["wo"]}, "c2", (), ""),
    "a padded convolution": case(
        images("a = Conv(x, k1, b1) y = Conv<pads=[1,1,1,1]>(a, w2, k0)"),
        ONE_BY_ONE, "a", (), ""),
    "a convolution that pads by itself": case(
        images('a = Conv(x, k1, b1) y = Conv<auto_pad="SAME_UPPER">(a, w2, k0)'),
        ONE_BY_ONE, "a", (), ""),
    "ReLU6": case(
        images("a = Conv(x, k1, b1) r = Clip(a, low, high) y = Conv(r, k2, k0)"),
        {**ONE_BY_ONE, "low": np.float32(0), "high": np.float32(6)}, "r", (), ""),
}  # fmt: skip


@cache
def built(name: str) -> tuple[Case, Graph]:
    found = (SHIFTED | FIXED)[name]
    return found, graph(found.text, found.weights)


@cache
def before(name: str) -> dict[str, np.ndarray]:
    found, made = built(name)
    return made.outputs(found.tensor)


def way(name: str) -> Shift:
    found, made = built(name)
    shift = made.shift(found.tensor)
    assert shift is not None
    return shift


@pytest.mark.parametrize("name", SHIFTED)
@settings(max_examples=12)
@given(st.data())
def test_outputs_stay_and_the_tensor_is_shifted(name: str, data: st.DataObject) -> None:
    found, made = built(name)
    shift = way(name)
    numbers = st.floats(-16, 16, width=32)
    count = int(shift.classes.max()) + 1
    of_class = data.draw(st.lists(numbers, min_size=count, max_size=count))
    addend = np.float32(of_class)[shift.classes]
    constants = {str(x.name): x.const_value.numpy().copy()
                 for x in made.model.graph.initializers.values()}  # fmt: skip
    outputs = made.shifted(found.tensor, addend, shift).outputs(found.tensor)
    expected = dict(before(name))
    axis = channel_axis(made.layers(found.tensor)[0])
    shifted = expected.pop(found.tensor)
    shifted = shifted - along_channels(addend, shifted, axis)
    assert np.abs(outputs.pop(found.tensor) - shifted).max() < 1e-4
    for key, array in expected.items():
        assert np.abs(outputs[key] - array).max() < 1e-4 * max(1, np.abs(array).max())
    for value in made.model.graph.initializers.values():  # the graph that is copied is as it was
        assert value.const_value is not None
        assert np.array_equal(value.const_value.numpy(), constants[str(value.name)])


@pytest.mark.parametrize("name", SHIFTED)
def test_the_addend_goes_where_it_can(name: str) -> None:
    found, made = built(name)
    shift = way(name)
    assert list(shift.classes) == list(found.classes)
    names = {str(node.name) for node in nodes_by_name(made.model).values()}
    edited = {edit.node for fold in (shift.source, *shift.others) for edit in fold.edits}
    assert edited == {f"n_{x}" for x in found.nodes.split()} and edited <= names


@pytest.mark.parametrize("name", FIXED)
def test_what_cannot_make_up_for_an_addend_is_left_alone(name: str) -> None:
    found, made = built(name)
    assert made.shift(found.tensor) is None
