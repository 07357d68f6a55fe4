"""Attention written out in bare MatMuls, with grouped heads or a mask, is still attention."""

from __future__ import annotations

import numpy as np
import onnx

from quantflow.artifacts.model_record import ModelRecord

from .blocks import WIDTH, gated_feed_forward, rms_norm
from .masked_blocks import MASK_NAME, describe, masked_encoder
from .models import build, rand

HEADS, KV_HEADS, SIZE = 4, 2, 2


def described(model: onnx.ModelProto, mask: str | None = None) -> ModelRecord:
    return describe(model, {"batch": 1, "length": 4}, mask).record


def grouped_attention(x: str, y: str) -> str:
    """Four query heads share two key and value heads, which are repeated, and rotated."""

    def repeated(v: str) -> str:  # (B, 2, L, D) -> (B, 4, L, D)
        return (
            f"{v}u = Unsqueeze({v}t, two) {v}e = Expand({v}u, repeat) {v}r = Reshape({v}e, flat) "
        )

    def rotated(v: str, source: str) -> str:
        return (
            f"{v}a, {v}b = Split<axis=-1, num_outputs=2>({source}) {v}n = Neg({v}b) "
            f"{v}h = Concat<axis=-1>({v}n, {v}a) {v}c = Mul({source}, cos) {v}s = Mul({v}h, sin) "
            f"{v}o = Add({v}c, {v}s) "
        )

    q, k, v = f"{y}q", f"{y}k", f"{y}v"
    return (
        f"{v} = MatMul({x}, {y}wv) {k} = MatMul({x}, {y}wk) {q} = MatMul({x}, {y}wq) "
        f"{q}f = Reshape({q}, heads) {q}t = Transpose<perm=[0,2,1,3]>({q}f) "
        f"{k}f = Reshape({k}, kvheads) {k}x = Transpose<perm=[0,2,1,3]>({k}f) "
        f"{v}f = Reshape({v}, kvheads) {v}t = Transpose<perm=[0,2,1,3]>({v}f) "
        + rotated(f"{q}z", f"{q}t")
        + rotated(f"{k}z", f"{k}x")
        + f"{k}t = Identity({k}zo) "
        + repeated(k)
        + repeated(v)
        + f"{k}w = Transpose<perm=[0,1,3,2]>({k}r) "
        f"{y}s0 = MatMul({q}zo, {k}w) {y}s1 = Div({y}s0, root) {y}s2 = Where(causal, {y}s1, low) "
        f"{y}p = Softmax({y}s2) {y}c = MatMul({y}p, {v}r) "
        f"{y}c1 = Transpose<perm=[0,2,1,3]>({y}c) {y}c2 = Reshape({y}c1, joined) "
        f"{y}o = MatMul({y}c2, {y}wo) {y} = Add({x}, {y}o) "
    )


def decoder(blocks: int) -> onnx.ModelProto:
    constants = {
        "two": np.int64([2]), "repeat": np.int64([1, 1, HEADS // KV_HEADS, 1, 1]),
        "flat": np.int64([0, HEADS, -1, SIZE]), "heads": np.int64([0, 0, HEADS, SIZE]),
        "kvheads": np.int64([0, 0, KV_HEADS, SIZE]), "joined": np.int64([0, 0, WIDTH]),
        "root": np.float32(2**0.5), "low": np.float32(-1e9),
        "cos": np.cos(np.arange(8).reshape(4, 2)).astype(np.float32),
        "sin": np.sin(np.arange(8).reshape(4, 2)).astype(np.float32),
        "causal": np.tril(np.ones((4, 4), bool)), "last": np.int64([-1]),
        "eps": np.float32(1e-5), "gain": rand(WIDTH, seed=90),
    }  # fmt: skip
    body, weights, x = "", dict[str, np.ndarray](), "x"
    for i in range(blocks):
        a, f = f"A{i}", f"F{i}"
        body += rms_norm(x, f"N{i}") + grouped_attention(f"N{i}", a)
        body += rms_norm(a, f"M{i}") + gated_feed_forward(f"M{i}", f)
        sizes = {"q": WIDTH, "o": WIDTH, "k": KV_HEADS * SIZE, "v": KV_HEADS * SIZE}
        weights |= {f"{a}w{k}": rand(WIDTH, n, seed=i) for k, n in sizes.items()}
        weights |= {f"{f}w{k}": rand(WIDTH, WIDTH, seed=i + k) for k in (1, 2, 3)}
        x = f
    body += rms_norm(x, "L") + "y = MatMul(L, head)"
    weights["head"] = rand(WIDTH, 11)
    return build(f"(float[batch,4,8] x) => (float[batch,4,11] y) {{ {body} }}", constants | weights)


def test_a_decoder_with_grouped_heads_and_gates() -> None:
    record = described(decoder(2))
    roles = {layer.name: layer.role for layer in record.layers}
    expected = {"n_y": "classifier"}
    for i in range(2):
        expected |= {f"n_A{i}{k}": "qkv" for k in "qkv"} | {f"n_A{i}o": "attention_output"}
        expected |= {f"n_F{i}{k}": "ffn" for k in "uad"}
    assert roles == expected
    groups = [(group.role, frozenset(group.layers)) for group in record.groups]
    assert groups == [
        pair
        for i in range(2)
        for pair in (
            ("qkv", {f"n_A{i}{k}" for k in "qkv"}),
            ("attention_output", {f"n_A{i}o"}),
            ("ffn", {f"n_F{i}u", f"n_F{i}a"}),
            ("ffn", {f"n_F{i}d"}),
        )
    ] + [("classifier", {"n_y"})]


def test_an_encoder_with_a_mask() -> None:
    record = described(masked_encoder(2), MASK_NAME)
    assert {group.name: group.role for group in record.groups} == {
        name: role
        for i in range(2)
        for name, role in (
            (f"n_A{i}q+n_A{i}k+n_A{i}v0", "qkv"),
            (f"n_A{i}o", "attention_output"),
            (f"n_F{i}a", "ffn"),
            (f"n_F{i}d", "ffn"),
        )
    } | {"n_y": "classifier"}
    assert {entry.layout for entry in record.padding} == {"positions"}
    assert record.mask is not None and record.mask.name == MASK_NAME
