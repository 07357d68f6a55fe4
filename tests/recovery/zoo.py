"""Graphs whose tensors can be divided channel by channel, and graphs whose tensors cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tests.graph.models import rand

X = "(float[2,3,4] x)"
"""Two samples of three vectors."""
I = "(float[2,4,5,5] x)"  # noqa: E741
"""Two images of four channels."""


class Case(NamedTuple):
    """A graph, one of its tensors, and what is known of it by looking at the graph.

    Attributes:
        text: the graph.
        weights: its constants.
        tensor: that is divided.
        classes: of its channels, by number.
        nodes: whose constants take the scale, all but their first letters.
    """

    text: str
    weights: dict[str, np.ndarray]
    tensor: str
    classes: Sequence[int]
    nodes: str


def _w(*shape: int, seed: int = 0) -> np.ndarray:
    return rand(*shape, seed=seed, scale=0.5)


NORM = {"g": rand(4, seed=40), "b": rand(4, seed=41)}
RMS = (
    "p = Mul(x, x) m = ReduceMean(p, last) e = Add(m, eps) r = Sqrt(e) d = Div(x, r) n = Mul(d, g) "
)
RMS_WEIGHTS = {"last": np.int64([-1]), "eps": np.float32(1e-5), "g": rand(4, seed=42)}
GATE = "u = MatMul(x, wu) a = MatMul(x, wa) s = Sigmoid(a) c = Mul(a, s) "
GATE_WEIGHTS = {"wu": _w(4, 6), "wa": _w(4, 6, seed=1), "wd": _w(6, 4, seed=2)}
GELU = "h = MatMul(x, w1) i = Add(h, b1) d = Div(i, root) f = Erf(d) o = Add(f, one) m = Mul(i, o) "
GELU_WEIGHTS = {
    "w1": _w(4, 6), "b1": rand(6, seed=7), "root": np.float32(2**0.5), "one": np.float32(1),
    "half": np.float32(0.5), "w2": _w(6, 4, seed=1),
}  # fmt: skip
HEADS = (
    "q = MatMul(x, wq) k = MatMul(x, wk) v0 = MatMul(x, wv) v = Add(v0, bv) "
    "q1 = Reshape(q, hs) q2 = Transpose<perm=[0,2,1,3]>(q1) "
    "k1 = Reshape(k, hs) k2 = Transpose<perm=[0,2,3,1]>(k1) "
    "v1 = Reshape(v, hs) v2 = Transpose<perm=[0,2,1,3]>(v1) "
    "s = MatMul(q2, k2) p = Softmax(s) c = MatMul(p, v2) "
    "c1 = Transpose<perm=[0,2,1,3]>(c) c2 = Reshape(c1, xs) y = MatMul(c2, wo)"
)
HEADS_WEIGHTS = {
    **{f"w{x}": _w(4, 4, seed=i) for i, x in enumerate("qkvo")}, "bv": rand(4, seed=9),
    "hs": np.int64([0, 0, 2, 2]), "xs": np.int64([0, 0, 4]),
}  # fmt: skip
GROUPED = (
    "q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) "
    "q1 = Reshape(q, hs) q2 = Transpose<perm=[0,2,1,3]>(q1) "
    "k1 = Reshape(k, gs) k2 = Transpose<perm=[0,2,1,3]>(k1) k3 = Unsqueeze(k2, two) "
    "k4 = Expand(k3, es) k5 = Reshape(k4, fs) k6 = Transpose<perm=[0,1,3,2]>(k5) "
    "v1 = Reshape(v, gs) v2 = Transpose<perm=[0,2,1,3]>(v1) v3 = Unsqueeze(v2, two) "
    "v4 = Expand(v3, es) v5 = Reshape(v4, fs) "
    "s = MatMul(q2, k6) p = Softmax(s) c = MatMul(p, v5) "
    "c1 = Transpose<perm=[0,2,1,3]>(c) c2 = Reshape(c1, xs) y = MatMul(c2, wo)"
)
GROUPED_WEIGHTS = {
    "wq": _w(4, 8), "wk": _w(4, 4, seed=1), "wv": _w(4, 4, seed=2), "wo": _w(8, 4, seed=3),
    "hs": np.int64([0, 0, 4, 2]), "gs": np.int64([0, 0, 2, 2]), "two": np.int64([2]),
    "es": np.int64([2, 2, 2, 3, 2]), "fs": np.int64([2, 4, 3, 2]), "xs": np.int64([0, 0, 8]),
}  # fmt: skip
FUSED_WEIGHTS = {
    **HEADS_WEIGHTS, "wf": _w(4, 12, seed=12), "bf": rand(12, seed=13),
    "parts": np.int64([4, 4, 4]), "fs": np.int64([0, 0, 3, 2, 2]), "axis": np.int64([2]),
    **{f"at{i}": np.int64(i - 3 * (i == 2)) for i in range(3)},
    **{f"to{i}": np.int64([4 * i]) for i in range(4)}, "end": np.int64([2**31]),
}  # fmt: skip
ATTENTION = HEADS[HEADS.index("q1 =") :]
SPLIT = "f = MatMul(x, wf) g = Add(f, bf) q, k, v = Split<axis=2>(g, parts) " + ATTENTION
SLICED = (
    "f = MatMul(x, wf) g = Add(f, bf) q = Slice(g, to0, to1, axis) k = Slice(g, to1, to2, axis) "
    "v = Slice(g, to2, end, axis) " + ATTENTION
)
GATHERED = (
    "f = MatMul(x, wf) g = Add(f, bf) r = Reshape(g, fs) t = Transpose<perm=[2,0,3,1,4]>(r) "
    "q2 = Gather<axis=0>(t, at0) k1 = Gather(t, at1) v2 = Gather(t, at2) "
    "k2 = Transpose<perm=[0,1,3,2]>(k1) " + ATTENTION[ATTENTION.index("s =") :]
)
FUSED = {"Split": SPLIT, "Slice": SLICED, "Gather": GATHERED}
"""One layer for queries, keys and values, by what takes it apart."""
CONVS = {
    "w1": _w(6, 4, 3, 3), "b1": rand(6, seed=5), "w2": _w(4, 6, 3, 3, seed=1),
    "wd": _w(6, 1, 3, 3, seed=2), "wg": _w(6, 2, 3, 3, seed=3), "bd": rand(6, seed=6),
    "wi": _w(6, 2, 3, 3, seed=4), "wf": _w(6, 3, seed=5), "bf": rand(3, seed=8),
    "ps": np.int64([0, 0, 1, 0, 0, 0, 0, 2]),
}  # fmt: skip


def case(
    text: str, weights: dict[str, np.ndarray], tensor: str, classes: Sequence[int], nodes: str
) -> Case:
    used = text.replace(",", " ").replace("(", " ").replace(")", " ").split()
    return Case(text, {k: x for k, x in weights.items() if k in used}, tensor, classes, nodes)


def vectors(body: str, width: int = 4) -> str:
    """A graph from two samples of three vectors to as many of some width."""
    return f"{X} => (float[2,3,{width}] y) {{ {body} }}"


def images(body: str, out: str = "2,4,5,5") -> str:
    """A graph from two images."""
    return f"{I} => (float[{out}] y) {{ {body} }}"


FOLDED = {
    "normalization": case(
        vectors("n = LayerNormalization<axis=-1>(x, g, b) y = MatMul(n, w)"),
        {**NORM, "w": _w(4, 4)}, "n", range(4), "n"),
    "normalization of three layers": case(
        vectors("n = LayerNormalization<axis=2>(x, g) q = MatMul(n, w1) k = MatMul(n, w2) "
                "v = MatMul(n, w3) s = Mul(q, k) y = Add(s, v)"),
        {**NORM, **{f"w{i}": _w(4, 4, seed=i) for i in (1, 2, 3)}}, "n", range(4), "n"),
    "one gain for two normalizations": case(
        vectors("n = LayerNormalization<axis=-1>(x, g, b) m = MatMul(n, w) "
                "k = LayerNormalization<axis=-1>(m, g, b) y = MatMul(k, w)"),
        {**NORM, "w": _w(4, 4)}, "n", range(4), "n"),
    "root mean square": case(
        vectors(RMS + "y = MatMul(n, w)"), {**RMS_WEIGHTS, "w": _w(4, 4)}, "n", range(4), "n"),
    "gain in front": case(
        vectors(RMS.replace("Mul(d, g)", "Mul(g, d)") + "y = MatMul(n, w)"),
        {**RMS_WEIGHTS, "w": _w(4, 4)}, "n", range(4), "n"),
    "gated": case(
        vectors(GATE + "e = Mul(c, u) y = MatMul(e, wd)"), GATE_WEIGHTS, "e", range(6), "u"),
    "a factor a row": case(
        vectors("h = MatMul(x, w1) f = MatMul(x, wr) e = Mul(h, f) y = MatMul(e, w2)"),
        {"w1": _w(4, 6), "wr": _w(4, 1, seed=1), "w2": _w(6, 4)}, "e", range(6), "h"),
    "a factor a row, the other way round": case(
        vectors("h = MatMul(x, w1) f = MatMul(x, wr) e = Mul(f, h) y = MatMul(e, w2)"),
        {"w1": _w(4, 6), "wr": _w(4, 1, seed=1), "w2": _w(6, 4)}, "e", range(6), "h"),
    "gated, the other way round": case(
        vectors(GATE + "e = Mul(u, c) y = MatMul(e, wd)"), GATE_WEIGHTS, "e", range(6), "u"),
    "half of an error function": case(
        vectors(GELU + "n = Mul(m, half) y = MatMul(n, w2)"), GELU_WEIGHTS, "n", range(6), "n"),
    "a half that others read": case(
        vectors(GELU + "n = Mul(half, m) z = MatMul(n, w2) y = Mul(z, half)"),
        GELU_WEIGHTS, "n", range(6), "n"),
    "half of the operand": case(
        vectors(GELU.replace("m = Mul(i, o)", "j = Mul(o, half) n = Mul(i, j)")
                + "y = MatMul(n, w2)"),
        GELU_WEIGHTS, "n", range(6), "j"),
    "heads": case(vectors(HEADS), HEADS_WEIGHTS, "c2", range(4), "v0 v"),
    "grouped heads": case(
        vectors(GROUPED), GROUPED_WEIGHTS, "c2", (0, 1, 0, 1, 2, 3, 2, 3), "v"),
    **{f"values by {x}": case(vectors(body), FUSED_WEIGHTS, "c2", range(4), "f g")
       for x, body in FUSED.items()},
    "the first of the vectors": case(
        f"{X} => (float[2,4] y) {{ n = LayerNormalization<axis=-1>(x, g, b) "
        "f = Gather<axis=1>(n, at0) y = MatMul(f, w) }",
        {**NORM, "w": _w(4, 4), "at0": np.int64(0)}, "f", range(4), "n"),
    "one head for all": case(
        vectors("s = Softmax(x) v = MatMul(x, wv) v1 = Unsqueeze(v, one) p = MatMul(a, v1) "
                "p1 = Transpose<perm=[0,2,1,3]>(p) c = Reshape(p1, xs) y = MatMul(c, wo)")
        .replace("(float[2,3,4] x)", "(float[2,3,4] x, float[2,2,3,3] a)").replace(
            "s = Softmax(x) ", ""),
        {"wv": _w(4, 2), "one": np.int64([1]), "xs": np.int64([0, 0, 4]), "wo": _w(4, 4)},
        "c", (0, 1, 0, 1), "v"),
    "ReLU": case(
        vectors("h = MatMul(x, w1) i = Add(b1, h) r = Relu(i) y = MatMul(r, w2)"),
        {"w1": _w(4, 6), "b1": rand(6), "w2": _w(6, 4)}, "r", range(6), "h i"),
    "a weight of two layers": case(
        vectors("h = MatMul(x, w) r = Relu(h) y = MatMul(r, w)"),
        {"w": _w(4, 4)}, "r", range(4), "h"),
    "both sides of a sum": case(
        vectors("a = MatMul(x, w1) b = MatMul(x, w2) s = Add(a, b) y = MatMul(s, w3)"),
        {"w1": _w(4, 6), "w2": _w(4, 6, seed=1), "w3": _w(6, 4)}, "s", range(6), "a b"),
    "a sum with one column": case(
        vectors("a = MatMul(x, w1) b = MatMul(x, w2) s = Add(a, b) y = MatMul(s, w3)"),
        {"w1": _w(4, 6), "w2": _w(4, 1, seed=1), "w3": _w(6, 4)}, "s", (0,) * 6, "a b"),
    "a divided product": case(
        vectors("a = MatMul(x, w1) d = Div(a, c) y = MatMul(d, w2)"),
        {"w1": _w(4, 6), "c": np.abs(rand(6)) + 1, "w2": _w(6, 4)}, "d", range(6), "a"),
    "Gemm": case(
        "(float[5,4] x) => (float[5,3] y) { h = Gemm(x, w1, b1) r = LeakyRelu(h) "
        "y = Gemm(r, w2) }",
        {"w1": _w(4, 6), "b1": rand(6), "w2": _w(6, 3)}, "r", range(6), "h"),
    "convolutions": case(
        images("a = Conv<pads=[1,1,1,1]>(x, w1, b1) r = Relu(a) y = Conv<pads=[1,1,1,1]>(r, w2)"),
        CONVS, "r", range(6), "a"),
    "into a depthwise one": case(
        images("a = Conv<pads=[1,1,1,1]>(x, w1, b1) r = Relu(a) "
               "y = Conv<pads=[1,1,1,1], group=6>(r, wd, bd)", "2,6,5,5"),
        CONVS, "r", range(6), "a"),
    "out of a depthwise one": case(
        images("a = Conv(x, w1) r = Relu(a) d = Conv<group=6>(r, wd, bd) e = Relu(d) "
               "y = Conv<pads=[2,2,2,2]>(e, w2)", "2,4,3,3"),
        CONVS, "e", range(6), "d"),
    "into a grouped one": case(
        images("a = Conv<group=2>(x, wi, b1) r = Relu(a) y = Conv<group=3>(r, wg)", "2,6,1,1"),
        CONVS, "r", range(6), "a"),
    "pools": case(
        images("a = Conv<pads=[1,1,1,1]>(x, w1, b1) m = MaxPool<kernel_shape=[2,2]>(a) "
               "p = AveragePool<kernel_shape=[2,2], pads=[1,1,0,0]>(m) y = Conv<pads=[1,1,1,1]>"
               "(p, w2)", "2,4,4,4"),
        CONVS, "p", range(6), "a"),
    "zeros around": case(
        images("a = Conv(x, w1, b1) p = Pad(a, ps) y = Conv<pads=[1,1,1,1]>(p, w2)", "2,4,4,5"),
        CONVS, "p", range(6), "a"),
    "classifier": case(
        images("a = Conv(x, w1, b1) r = Relu(a) m = GlobalAveragePool(r) f = Flatten(m) "
               "y = Gemm(f, wf, bf)", "2,3"),
        CONVS, "f", range(6), "a"),
    "channels last": case(
        images("a = Conv(x, w1, b1) t = Transpose<perm=[0,2,3,1]>(a) y = MatMul(t, wf)",
               "2,3,3,3"),
        CONVS, "t", range(6), "a"),
    "two channels of each": case(
        vectors("a = MatMul(x, w1) b = Unsqueeze(a, last) e = Expand(b, es) c = Reshape(e, xs) "
                "y = MatMul(c, w2)"),
        {"w1": _w(4, 3), "last": np.int64([-1]), "es": np.int64([2, 3, 3, 2]),
         "xs": np.int64([2, 3, 6]), "w2": _w(6, 4)}, "c", (0, 0, 1, 1, 2, 2), "a"),
    "two branches of one image": case(
        images("a = Conv(x, w1, b1) r = Relu(a) b = Conv(r, wz) c = Conv<group=6>(r, wd, bd) "
               "y = Add(b, c)", "2,6,1,1"),
        {**CONVS, "wz": _w(6, 6, 3, 3, seed=11)}, "r", range(6), "a"),
}  # fmt: skip

_H = "h = MatMul(x, w1) "
_WW = {"w1": _w(4, 4), "w2": _w(4, 4, seed=1), "b": rand(4), "one": np.float32(1)}


def _plain(body: str, tensor: str = "r", outputs: str = "float[2,3,4] y") -> Case:
    return case(f"{X} => ({outputs}) {{ {body} }}", _WW, tensor, (), "")


UNFOLDED = {
    "a graph's input": _plain("y = MatMul(x, w1)", "x"),
    "a graph's output": _plain(_H + "y = MatMul(h, w2)", "h", "float[2,3,4] y, float[2,3,4] h"),
    "an output on the way": _plain(
        _H + "r = Relu(h) y = MatMul(r, w2)", "r", "float[2,3,4] y, float[2,3,4] h"),
    "a residual beside the layer": _plain(_H + "r = Relu(h) m = MatMul(r, w2) y = Add(r, m)"),
    "a residual on the way": _plain(_H + "r = Relu(h) m = MatMul(r, w2) y = Add(h, m)"),
    "a residual stream": _plain(_H + "r = Add(x, h) y = MatMul(r, w2)"),
    "a square": _plain(_H + "r = Mul(h, h) y = MatMul(r, w2)"),
    "Sigmoid": _plain(_H + "r = Sigmoid(h) y = MatMul(r, w2)"),
    "SiLU": _plain(_H + "s = Sigmoid(h) r = Mul(h, s) y = MatMul(r, w2)"),
    "Tanh": _plain(_H + "r = Tanh(h) y = MatMul(r, w2)"),
    "Softmax": _plain(_H + "r = Softmax(h) y = MatMul(r, w2)"),
    "Exp": _plain(_H + "r = Exp(h) y = MatMul(r, w2)"),
    "a denominator": _plain("d = MatMul(x, w1) r = Div(x, d) y = MatMul(r, w2)"),
    "no gain": _plain(RMS.replace("n = Mul(d, g) ", "") + "y = MatMul(d, w2)", "d")._replace(
        weights={**RMS_WEIGHTS, "w2": _w(4, 4)}),
    "ReLU6": case(
        images("a = Conv<pads=[1,1,1,1]>(x, w1, b1) r = Clip(a, low, high) "
               "y = Conv<pads=[1,1,1,1]>(r, w2)"),
        {**CONVS, "low": np.float32(0), "high": np.float32(6)}, "r", (), ""),
    "HardSwish": case(
        images("a = Conv<pads=[1,1,1,1]>(x, w1, b1) r = HardSwish(a) "
               "y = Conv<pads=[1,1,1,1]>(r, w2)"), CONVS, "r", (), ""),
    "a part that is also in another": case(
        vectors(SLICED.replace("to1, to2", "to2, to3")), FUSED_WEIGHTS, "c2", (), ""),
    "every second channel": case(
        vectors("h = MatMul(x, w8) s = Slice(h, to0, end, axis, steps) y = MatMul(s, w2)"),
        {**FUSED_WEIGHTS, "w8": _w(4, 8), "w2": _w(4, 4), "steps": np.int64([2])}, "s", (), ""),
    "the whole beside its part": case(
        vectors("f = MatMul(x, wf) v = Slice(f, to0, to1, axis) u = MatMul(v, w2) "
                "t = MatMul(f, w3) y = Add(u, t)"),
        {**FUSED_WEIGHTS, "w2": _w(4, 4), "w3": _w(12, 4)}, "v", (), ""),
    "a vector in front": case(
        vectors("h = MatMul(x, w1) t = Transpose<perm=[0,2,1]>(h) u = MatMul(v, t) "
                "y = MatMul(u, w2)").replace("(float[2,3,4] y)", "(float[2,4] y)").replace(
                    "(float[2,3,4] x)", "(float[2,3,4] x, float[4] v)"),
        {"w1": _w(4, 4), "w2": _w(3, 4)}, "u", (), ""),
    "channels that padding moves": case(
        images("a = Conv(x, w1, b1) p = Pad(a, pm) y = Conv<pads=[1,1,1,1]>(p, w2)", "2,4,3,3"),
        {**CONVS, "pm": np.int64([0, 1, 0, 0, 0, -1, 0, 0])}, "p", (), ""),
    "the first of the vectors beside another": case(
        f"{X} => (float[2,4] y) {{ n = LayerNormalization<axis=-1>(x, g, b) "
        "f = Gather<axis=1>(n, at0) s = Gather<axis=1>(n, at1) u = MatMul(f, w) y = Add(u, s) }",
        {**NORM, **FUSED_WEIGHTS, "w": _w(4, 4)}, "f", (), ""),
    "ones around": case(
        images("a = Conv(x, w1, b1) p = Pad(a, ps, one) y = Conv<pads=[1,1,1,1]>(p, w2)",
               "2,4,4,5"),
        {**CONVS, "one": np.float32(1)}, "p", (), ""),
}  # fmt: skip

UNCERTAIN = {
    "slices": case(
        vectors("h = MatMul(x, w) s = Slice(h, from, to, axis) y = MatMul(s, w)"),
        {"w": _w(4, 4), "from": np.int64([0]), "to": np.int64([4]), "axis": np.int64([2])},
        "s", (), ""),
    "pieces put together": case(
        vectors("a = MatMul(x, w1) b = MatMul(x, w2) c = Concat<axis=-1>(a, b) "
                "y = MatMul(c, w3)"),
        {"w1": _w(4, 2), "w2": _w(4, 4), "w3": _w(6, 4)}, "c", (), ""),
    "pixels in a row": case(
        images("a = Conv(x, w1, b1) r = Relu(a) f = Flatten(r) y = MatMul(f, wp)", "2,3"),
        {**CONVS, "wp": _w(54, 3)}, "f", (), ""),
    "vectors as channels": case(
        vectors("a = MatMul(x, w1) t = Transpose<perm=[0,2,1]>(a) y = MatMul(t, w2)", 4).replace(
            "float[2,3,4] y", "float[2,4,5] y"),
        {"w1": _w(4, 4), "w2": _w(3, 5)}, "t", (), ""),
    "a constant in front": case(
        vectors("a = MatMul(x, w1) b = Mul(a, big) y = MatMul(b, w2)"),
        {"w1": _w(4, 4), "big": rand(1, 3, 1), "w2": _w(4, 4)}, "b", (), ""),
    "a reciprocal": case(
        vectors("a = Exp(x) b = Div(one, a) y = MatMul(b, w2)"),
        {"one": np.float32(1), "w2": _w(4, 4)}, "b", (), ""),
    "a wider constant": case(
        vectors("a = MatMul(x, w1) b = Add(a, c) y = MatMul(b, w2)"),
        {"w1": _w(4, 1), "c": rand(2, 1, 4), "w2": _w(4, 4)}, "b", (), ""),
}  # fmt: skip
"""What is found for them, if anything, has to be right."""
