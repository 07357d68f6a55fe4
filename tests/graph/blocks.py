"""Transformer blocks as ONNX text whose names say nothing."""

from __future__ import annotations

import numpy as np
import onnx

from .models import build, rand

WIDTH = 8


def _weights(names: str, seed: int = 0) -> dict[str, np.ndarray]:
    return {name: rand(WIDTH, WIDTH, seed=seed + i) for i, name in enumerate(names.split())}


CONSTANTS = {
    "hs": np.int64([0, 0, 2, 4]),
    "xs": np.int64([0, 0, 8]),
    "scale": np.float32(0.5),
    "gain": rand(WIDTH, seed=90),
    "shift": rand(WIDTH, seed=91),
    "last": np.int64([-1]),
    "eps": np.float32(1e-5),
    "parts": np.int64([8, 8, 8]),
}


def attention(x: str, y: str, memory: str | None = None, packed: bool = False) -> str:
    """Attention from `x` to `memory`; values of the block are prefixed by `y`."""
    m = memory or x
    if packed:
        project = (
            f"{y}u = MatMul({x}, {y}wu) {y}ub = Add({y}u, {y}bu) "
            f"{y}q, {y}k, {y}v = Split<axis=2>({y}ub, parts) "
        )
    else:
        project = (
            f"{y}q = MatMul({x}, {y}wq) {y}k = MatMul({m}, {y}wk) {y}v0 = MatMul({m}, {y}wv) "
            f"{y}v = Add({y}v0, shift) "
        )
    return project + (
        f"{y}q1 = Reshape({y}q, hs) {y}q2 = Transpose<perm=[0,2,1,3]>({y}q1) "
        f"{y}k1 = Reshape({y}k, hs) {y}k2 = Transpose<perm=[0,2,3,1]>({y}k1) "
        f"{y}v1 = Reshape({y}v, hs) {y}v2 = Transpose<perm=[0,2,1,3]>({y}v1) "
        f"{y}s = MatMul({y}q2, {y}k2) {y}s1 = Mul({y}s, scale) {y}p = Softmax({y}s1) "
        f"{y}c = MatMul({y}p, {y}v2) {y}c1 = Transpose<perm=[0,2,1,3]>({y}c) "
        f"{y}c2 = Reshape({y}c1, xs) {y}o = MatMul({y}c2, {y}wo) {y} = Add({x}, {y}o) "
    )


def layer_norm(x: str, y: str) -> str:
    """LayerNormalization as one node."""
    return f"{y} = LayerNormalization<axis=-1>({x}, gain, shift) "


def rms_norm(x: str, y: str) -> str:
    """RMSNorm in elementary operations."""
    return (
        f"{y}1 = Mul({x}, {x}) {y}2 = ReduceMean({y}1, last) {y}3 = Add({y}2, eps) "
        f"{y}4 = Sqrt({y}3) {y}5 = Div({x}, {y}4) {y} = Mul({y}5, gain) "
    )


def feed_forward(x: str, y: str) -> str:
    """Two layers with a ReLU, and the residual."""
    return (
        f"{y}a = MatMul({x}, {y}w1) {y}b = Add({y}a, shift) {y}c = Relu({y}b) "
        f"{y}d = MatMul({y}c, {y}w2) {y} = Add({x}, {y}d) "
    )


def gated_feed_forward(x: str, y: str) -> str:
    """Three layers with a SiLU gate, and the residual; the ungated layer comes first."""
    return (
        f"{y}u = MatMul({x}, {y}w2) {y}a = MatMul({x}, {y}w1) {y}b = Sigmoid({y}a) "
        f"{y}c = Mul({y}a, {y}b) {y}e = Mul({y}c, {y}u) {y}d = MatMul({y}e, {y}w3) "
        f"{y} = Add({x}, {y}d) "
    )


def transformer(body: str, weights: str, inputs: str = "") -> onnx.ModelProto:
    """A model from `x` (and further inputs) to `y` through the given blocks."""
    arrays = _weights(weights) | CONSTANTS
    arrays |= {name: rand(WIDTH, 24, seed=5) for name in weights.split() if name.endswith("wu")}
    arrays |= {f"{name[:-2]}bu": rand(24) for name in weights.split() if name.endswith("wu")}
    arrays = {name: array for name, array in arrays.items() if name in body.replace(",", " ")}
    return build(
        f"(float[batch,length,8] x{inputs}) => (float[batch,length,8] y) {{ {body} }}", arrays
    )
