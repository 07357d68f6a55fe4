"""Roles from topology where names say nothing, and from names where they do."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from quantflow.artifacts.model_record import ModelRecord
from quantflow.graph.layers import describe_model

from .blocks import (
    attention,
    feed_forward,
    gated_feed_forward,
    layer_norm,
    rms_norm,
    transformer,
)
from .models import build, canonical, rand


def described(model: onnx.ModelProto) -> ModelRecord:
    result, notes = canonical(model)
    return describe_model(result, {"batch": 1, "length": 4, "other": 3}, mask=None, notes=notes)


def roles(record: ModelRecord) -> dict[str, str]:
    return {layer.name.removeprefix("n_"): layer.role for layer in record.layers}


def groups(record: ModelRecord) -> dict[str, str]:
    return {group.name.replace("n_", ""): group.role for group in record.groups}


ENCODER = {"Aq": "qkv", "Ak": "qkv", "Av0": "qkv", "Ao": "attention_output"}
FFN = {"Fa": "ffn", "Fd": "ffn"}


def test_an_encoder_block_without_telling_names() -> None:
    body = attention("x", "A") + layer_norm("A", "N") + feed_forward("N", "F")
    model = transformer(
        body + layer_norm("F", "M") + "y = MatMul(M, wy)", "Awq Awk Awv Awo Fw1 Fw2 wy"
    )
    record = described(model)
    assert roles(record) == ENCODER | FFN | {"y": "classifier"}
    assert groups(record) == {
        "Aq+Ak+Av0": "qkv", "Ao": "attention_output", "Fa": "ffn", "Fd": "ffn", "y": "classifier",
    }  # fmt: skip


@pytest.mark.parametrize("end", ["norm", "none"])
def test_the_last_layer_of_a_block_without_a_head_is_no_classifier(end: str) -> None:
    body = attention("x", "A") + feed_forward("A", "F")
    body += layer_norm("F", "y") if end == "norm" else "y = Identity(F)"
    assert roles(described(transformer(body, "Awq Awk Awv Awo Fw1 Fw2"))) == ENCODER | FFN


def test_two_decoder_blocks_with_rms_norm_and_gates() -> None:
    body = (
        rms_norm("x", "N") + attention("N", "A") + rms_norm("A", "M")
        + gated_feed_forward("M", "F") + rms_norm("F", "O") + attention("O", "B")
        + rms_norm("B", "P") + gated_feed_forward("P", "G") + rms_norm("G", "Q")
        + "y = MatMul(Q, wy)"
    )  # fmt: skip
    names = "Awq Awk Awv Awo Fw1 Fw2 Fw3 Bwq Bwk Bwv Bwo Gw1 Gw2 Gw3 wy"
    record = described(transformer(body, names))
    assert groups(record) == {
        "Aq+Ak+Av0": "qkv", "Ao": "attention_output", "Fu+Fa": "ffn", "Fd": "ffn",
        "Bq+Bk+Bv0": "qkv", "Bo": "attention_output", "Gu+Ga": "ffn", "Gd": "ffn",
        "y": "classifier",
    }  # fmt: skip


def test_one_projection_to_q_k_and_v_is_qkv() -> None:
    body = attention("x", "A", packed=True) + layer_norm("A", "N") + feed_forward("N", "y0")
    model = transformer(body + "y = Identity(y0)", "Awu Awo y0w1 y0w2")
    found = roles(described(model))
    assert found["Au"] == "qkv" and found["Ao"] == "attention_output"


def test_k_and_v_of_cross_attention_are_a_group_of_their_own() -> None:
    body = attention("x", "A") + layer_norm("A", "N") + attention("N", "B", memory="m")
    model = transformer(
        body + layer_norm("B", "y"),
        "Awq Awk Awv Awo Bwq Bwk Bwv Bwo",
        inputs=", float[batch,other,8] m",
    )
    found = groups(described(model))
    assert found["Bq"] == found["Bk+Bv0"] == "qkv" and found["Bo"] == "attention_output"


def test_the_softmax_of_a_classifier_is_no_attention() -> None:
    model = build(
        "(float[batch,8] x) => (float[batch,3] y) "
        "{ a = MatMul(x, w) r = Relu(a) c = MatMul(r, w2) y = Softmax(c) }",
        {"w": rand(8, 8), "w2": rand(8, 3)},
    )
    assert roles(described(model)) == {"a": "ffn", "c": "classifier"}


def test_convolutions_are_conv() -> None:
    model = build(
        "(float[batch,4,8,8] x) => (float[batch,3] y) { c = Conv(x, k) r = Relu(c) "
        "t = ConvTranspose(r, kt) g = GlobalAveragePool(t) f = Flatten(g) y = MatMul(f, w) }",
        {"k": rand(6, 4, 3, 3), "kt": rand(6, 4, 2, 2), "w": rand(4, 3)},
    )
    record = described(model)
    assert roles(record) == {"c": "conv", "t": "conv", "y": "classifier"}
    assert [layer.float_reason for layer in record.layers] == ["", "", ""]
    assert groups(record) == {"c": "conv", "t": "conv", "y": "classifier"}


NAMED = {
    # BERT, DistilBERT
    "encoder.layer.0.attention.self.query": "qkv",
    "encoder.layer.0.attention.output.dense": "attention_output",
    "encoder.layer.0.intermediate.dense": "ffn",
    "encoder.layer.0.output.dense": "ffn",
    "transformer.layer.3.attention.q_lin": "qkv",
    "transformer.layer.3.attention.out_lin": "attention_output",
    "transformer.layer.3.ffn.lin2": "ffn",
    "classifier": "classifier",
    "qa_outputs": "classifier",
    # GPT-2, Llama, Falcon, Mixtral
    "h.0.attn.c_attn": "qkv",
    "h.0.attn.c_proj": "attention_output",
    "h.0.mlp.c_fc": "ffn",
    "h.0.mlp.c_proj": "ffn",
    "model.layers.0.self_attn.k_proj": "qkv",
    "model.layers.0.self_attn.o_proj": "attention_output",
    "model.layers.0.mlp.gate_proj": "ffn",
    "model.layers.0.mlp.down_proj": "ffn",
    "lm_head": "classifier",
    "h.1.self_attention.query_key_value": "qkv",
    "h.1.self_attention.dense": "attention_output",
    "h.1.mlp.dense_h_to_4h": "ffn",
    "layers.0.block_sparse_moe.experts.0.w1": "ffn",
    "layers.0.attention.wo": "attention_output",
    "layers.0.feed_forward.w3": "ffn",
    # T5
    "encoder.block.0.layer.0.SelfAttention.q": "qkv",
    "encoder.block.0.layer.0.SelfAttention.o": "attention_output",
    "decoder.block.0.layer.1.EncDecAttention.v": "qkv",
    "encoder.block.0.layer.1.DenseReluDense.wi_0": "ffn",
    "encoder.block.0.layer.1.DenseReluDense.wo": "ffn",
    # timm, diffusers
    "blocks.0.attn.qkv": "qkv",
    "blocks.0.attn.proj": "attention_output",
    "blocks.0.mlp.fc1": "ffn",
    "head": "classifier",
    "attn1.to_q": "qkv",
    "attn1.to_out.0": "attention_output",
    # torch's older exporter
    "/encoder/layer.1/attention/self/key/MatMul": "qkv",
    "/encoder/layer.1/output/dense/MatMul_1": "ffn",
    "/classifier/Gemm": "classifier",
}


def test_names_of_well_known_models_tell_the_role() -> None:
    body = " ".join(f"y{i} = MatMul(x, w{i})" for i in range(len(NAMED)))
    outputs = ", ".join(f"float[batch,2] y{i}" for i in range(len(NAMED)))
    weights = {f"w{i}": rand(4, 2, seed=i) for i in range(len(NAMED))}
    model = build(f"(float[batch,4] x) => ({outputs}) {{ {body} }}", weights)
    for node, name in zip(model.graph.node, NAMED, strict=True):
        node.name = name
    assert roles(described(model)) == NAMED


def test_a_group_of_different_roles_is_other() -> None:
    model = build(
        "(float[batch,4] x) => (float[batch,4] y, float[batch,4] z) "
        "{ y = MatMul(x, a) z = MatMul(x, c) }",
        {"a": rand(4, 4), "c": rand(4, 4, seed=1)},
    )
    model.graph.node[0].name, model.graph.node[1].name = "attn.q_proj", "mlp.fc1"
    record = described(model)
    assert [(group.role, group.layers) for group in record.groups] == [
        ("other", ("attn.q_proj", "mlp.fc1"))
    ]


def test_positions_made_by_a_product_of_constants_are_no_attention() -> None:
    # Rotary angles: inv_freq @ positions, neither of which is a projection.
    model = build(
        "(float[batch,length,8] x) => (float[batch,length,length] y) { "
        "s = Shape<start=1, end=2>(x) n = Squeeze(s) r = Range(i0, n, i1) f = Cast<to=1>(r) "
        "u = Unsqueeze(f, i11) a = MatMul(freq, u) t = Transpose<perm=[1,0]>(a) c = Cos(t) "
        "q = MatMul(x, wq) k = MatMul(x, wk) q1 = Mul(q, c) k1 = Mul(k, c) "
        "k2 = Transpose<perm=[0,2,1]>(k1) d = MatMul(q1, k2) p = Softmax(d) "
        "v = MatMul(x, wv) o = MatMul(p, v) o1 = MatMul(o, wo) "
        "o2 = Transpose<perm=[0,2,1]>(o1) y = MatMul(x, o2) }",
        {
            "i0": np.int64(0), "i1": np.int64(1), "i11": np.int64([0]), "freq": rand(8, 1),
            "wq": rand(8, 8), "wk": rand(8, 8, seed=1), "wv": rand(8, 8, seed=2),
            "wo": rand(8, 8, seed=3),
        },
    )  # fmt: skip
    found = roles(described(model))
    assert found.pop("a") == "other"
    assert found == {"q": "qkv", "k": "qkv", "v": "qkv", "o1": "attention_output"}
