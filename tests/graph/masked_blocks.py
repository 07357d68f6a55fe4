"""Encoders of several blocks that read an attention mask, as ONNX text without telling names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from quantflow.artifacts.model_record import ModelRecord
from quantflow.graph.bucket import bucket_model
from quantflow.graph.layers import describe_model

from .blocks import WIDTH, attention, feed_forward, layer_norm, transformer
from .models import canonical, rand

MASK_NAME = "attention_mask"
MASK_INPUT = ", int64[batch,length] attention_mask"
# bias is (B, 1, 1, L): 0 where the mask is 1.
MASK = (
    "mf = Cast<to=1>(attention_mask) mu = Unsqueeze(mf, ones) mi = Sub(one, mu) "
    "bias = Mul(mi, minus) "
)
CONSTANTS = {
    "ones": np.int64([1, 2]),
    "one": np.float32(1),
    "minus": np.float32(-1e4),
}


@dataclass(frozen=True)
class Described:
    """A canonical model with its record, and one bucket of it."""

    model: ir.Model
    record: ModelRecord
    static: ir.Model
    dims: dict[str, int]


def masked_attention(x: str, y: str, memory: str | None = None) -> str:
    """`blocks.attention`, with the additive mask in front of the softmax."""
    masked = f"{y}m = Add({y}s1, bias) {y}p = Softmax({y}m)"
    return attention(x, y, memory).replace(f"{y}p = Softmax({y}s1)", masked)


def masked_encoder(blocks: int, head: bool = True) -> onnx.ModelProto:
    """`blocks` post-norm encoder blocks and a head; values of block i begin with ``Ai`` to ``Mi``.

    Each block has four groups: ``Aiq+Aik+Aiv0``, ``Aio``, ``Fia`` and ``Fid``.
    """
    body, weights, x = MASK, list[str](), "x"
    for i in range(blocks):
        a, n, f, m = (f"{letter}{i}" for letter in "ANFM")
        body += masked_attention(x, a) + layer_norm(a, n) + feed_forward(n, f) + layer_norm(f, m)
        weights += [f"{a}w{k}" for k in "qkvo"] + [f"{f}w1", f"{f}w2"]
        x = m
    body += f"y = MatMul({x}, wy)" if head else f"y = Mul({x}, one)"
    model = transformer(body, " ".join([*weights, "wy"]), inputs=MASK_INPUT)
    return with_constants(model, CONSTANTS)


def with_constants(model: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> onnx.ModelProto:
    """The model with further initializers."""
    for name, array in arrays.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def describe(
    model: onnx.ModelProto, dims: dict[str, int], mask: str | None = MASK_NAME
) -> Described:
    """Canonical form, record and bucket of a model."""
    result, notes = canonical(model)
    record = describe_model(result, dims, mask=mask, notes=notes)
    return Described(result, record, bucket_model(result, dims), dims)


def samples(lengths: Sequence[int], seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Samples of these lengths without batch axis, all positions real."""
    return [
        {"x": rand(length, WIDTH, seed=seed + i), MASK_NAME: np.ones(length, np.int64)}
        for i, length in enumerate(lengths)
    ]
