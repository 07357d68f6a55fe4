"""Benches of several kinds of network, with INT8 that does visible damage."""

from __future__ import annotations

import numpy as np
import onnx

from tests.graph.blocks import attention, gated_feed_forward, rms_norm, transformer
from tests.graph.masked_blocks import MASK_NAME, masked_encoder, samples
from tests.graph.models import build, rand

from .builders import Bench, Samples, bench

LENGTHS = (6, 4, 6, 3, 5, 6, 2)
"""An odd number of samples, in batches of 2."""


def coarse(proto: onnx.ModelProto, feeds: Samples, mask: str | None = None) -> Bench:
    """A bench whose ranges are six times too wide."""
    dims = {"batch": 2, "length": 6}
    exact = bench(proto, feeds, dims, mask=mask)
    wide = {x.tensor: (6 * x.low, 6 * x.high) for x in exact.ranges.ranges}
    return bench(proto, feeds, dims, bounds=wide, mask=mask)


def encoder_bench() -> Bench:
    """Three post-norm blocks with an attention mask."""
    return coarse(masked_encoder(3), samples(LENGTHS), mask=MASK_NAME)


def holed_bench() -> Bench:
    """Two blocks whose masks have zeros before the end, too."""
    rng = np.random.default_rng(3)
    feeds = samples((6, 6, 5, 6, 6))
    for sample in feeds:
        sample[MASK_NAME] = rng.integers(0, 2, len(sample[MASK_NAME]))
        sample[MASK_NAME][0] = 1
    return coarse(masked_encoder(2), feeds, mask=MASK_NAME)


def decoder() -> onnx.ModelProto:
    """Three pre-norm blocks with gated feed-forward networks: the stream crosses every block."""
    body, weights, x = "", list[str](), "x"
    for i in range(3):
        body += rms_norm(x, f"N{i}") + attention(f"N{i}", f"A{i}").replace(
            f"A{i} = Add(N{i}", f"A{i} = Add({x}"
        )
        body += rms_norm(f"A{i}", f"M{i}") + gated_feed_forward(f"M{i}", f"F{i}").replace(
            f"F{i} = Add(M{i}", f"F{i} = Add(A{i}"
        )
        weights += [f"A{i}w{k}" for k in "qkvo"] + [f"F{i}w{k}" for k in (1, 2, 3)]
        x = f"F{i}"
    body += rms_norm(x, "L") + "y = MatMul(L, wy)"
    return transformer(body, " ".join([*weights, "wy"]))


def decoder_bench() -> Bench:
    """The decoder, without a mask."""
    return coarse(decoder(), [{"x": rand(6, 8, seed=i)} for i in range(5)])


def convolutional_network() -> onnx.ModelProto:
    """Stem, depthwise and pointwise layers with a residual, upsampling, and a classifier."""
    return build(
        """(float[batch,3,8,8] x) => (float[batch,5] y) {
        a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w0, b0) r = Relu(a)
        d = Conv<group=6, auto_pad="SAME_UPPER">(r, w1) e = Clip(d, low, high)
        p = Conv(e, w2, b2) s = Add(p, r)
        t = ConvTranspose<strides=[2,2], group=2>(s, w3, b3) u = HardSwish(t)
        m = GlobalAveragePool(u) f = Flatten(m) y = Gemm(f, w4, b4) }""",
        {
            "w0": rand(6, 3, 3, 3), "b0": rand(6), "w1": rand(6, 1, 3, 3), "w2": rand(6, 6, 1, 1),
            "b2": rand(6, seed=1), "w3": rand(6, 2, 2, 2), "b3": rand(4), "w4": rand(4, 5),
            "b4": rand(5), "low": np.float32(0), "high": np.float32(6),
        },
    )  # fmt: skip


def convolutions_bench() -> Bench:
    """The convolutional network on three images in batches of 2."""
    return bench(
        convolutional_network(), [{"x": rand(3, 8, 8, seed=i)} for i in range(3)], {"batch": 2}
    )


CHAIN = {
    "w0": rand(6, 8, seed=1), "b0": rand(8, seed=2), "w1": rand(8, 7, seed=3),
    "b1": rand(7, seed=4), "w2": rand(7, 4, seed=5),
}  # fmt: skip
"""Weights of the chain."""


def chain_bench() -> Bench:
    """Three biased layers in a row on five samples, small enough to follow by hand."""
    proto = build(
        "(float[batch,6] x) => (float[batch,4] y) { a = Gemm(x, w0, b0) t = Tanh(a) "
        "b = MatMul(t, w1) c = Add(b, b1) r = Relu(c) y = MatMul(r, w2) }",
        CHAIN,
    )
    return bench(proto, [{"x": rand(6, seed=i)} for i in range(5)], {"batch": 2})


BENCHES = {
    "encoder": encoder_bench,
    "holed masks": holed_bench,
    "decoder": decoder_bench,
    "convolutions": convolutions_bench,
    "chain": chain_bench,
}
