"""Layers, biases, multiply-accumulates, groups and padding of hand-built graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.errors import QuantflowError
from quantflow.graph.groups import group_name
from quantflow.graph.layers import describe_model

from .models import build, canonical, rand

W = rand(4, 4)


def described(model: onnx.ModelProto, mask: str | None = None, **dims: int) -> ModelRecord:
    result, notes = canonical(model)
    return describe_model(result, dims or {"batch": 1}, mask=mask, notes=notes)


def layer(record: ModelRecord, name: str) -> Layer:
    return next(x for x in record.layers if x.name == f"n_{name}")


# --- what is a layer ---------------------------------------------------------------------------


def test_a_layer_names_its_tensors() -> None:
    model = build(
        "(float[batch,4] x) => (float[batch,3] y) "
        "{ h = MatMul(x, w) a = Add(h, c) r = Relu(a) y = Gemm(r, w2, c2) }",
        {"w": W, "c": rand(4), "w2": rand(4, 3), "c2": rand(3)},
    )
    record = described(model)
    assert record.layers[0].model_dump(exclude={"role", "group", "macs"}) == {
        "name": "n_h", "node": "n_h", "op_type": "MatMul", "input": "x", "weight": "n_h.weight",
        "bias": "c", "bias_node": "n_a", "output": "a", "float_reason": "", "window": None,
        "second_input": "",
    }  # fmt: skip
    assert record.layers[1].model_dump(exclude={"role", "group", "macs"}) == {
        "name": "n_y", "node": "n_y", "op_type": "Gemm", "input": "r", "weight": "n_y.weight",
        "bias": "c2", "bias_node": None, "output": "y", "float_reason": "", "window": None,
        "second_input": "",
    }  # fmt: skip


def test_a_scalar_input_is_refused_since_it_has_no_batch() -> None:
    model = build(
        "(float[batch,4] x, float s) => (float[batch,4] y) { h = MatMul(x, w) y = Mul(h, s) }",
        {"w": W},
    )
    with pytest.raises(QuantflowError, match="QF211") as caught:
        described(model)
    assert "'s' is a scalar" in caught.value.problems[0].what


def test_the_boundary_is_described() -> None:
    model = build(
        "(float[batch,4] x, int64[batch,7] m) => (float[batch,4] y) "
        "{ h = MatMul(x, w) f = Cast<to=1>(m) s = ReduceMax<keepdims=1>(f, one) y = Mul(h, s) }",
        {"w": W, "one": np.int64([1])},
    )
    record = described(model, mask="m")
    assert [(t.name, t.dtype, t.shape, t.mask) for t in record.inputs] == [
        ("x", "float32", ("batch", 4), False), ("m", "int64", ("batch", 7), True),
    ]  # fmt: skip
    assert [(t.name, t.shape) for t in record.outputs] == [("y", ("batch", 4))]
    assert record.mask == record.inputs[1] and record.opset == 18


@pytest.mark.parametrize(
    ("body", "weights", "says"),
    [
        ("h = MatMul(w, x)", {"w": rand(3, 3)}, "left operand"),
        ("h = MatMul(x, w)", {"w": rand(1, 4, 4)}, "2-D"),
        ("h = MatMul(x, w)", {"w": rand(4)}, "2-D"),
        ("f = Flatten(x) h = Gemm(f, w, c)", {"w": rand(12, 4), "c": rand(1, 4)}, "1-D constant"),
        ("f = Flatten(x) g = ReduceMean<keepdims=0>(f, zero) h = Gemm<beta=0.5>(f, w, g)",
         {"w": rand(12, 12), "zero": np.int64([0])}, "alpha or beta"),
        ("s = Shape<start=1, end=2>(x) n = Squeeze(s) r = Range(i0, n, i1) f = Cast<to=1>(r) "
         "u = Unsqueeze(f, one) h = MatMul(u, w)",
         {"w": rand(1, 4), "one": np.int64([1]), "i0": np.int64(0), "i1": np.int64(1)},
         "input is constant"),
        ("h = MatMul(x, w)", {"w": rand(4, 0)}, "no numbers"),
    ],
)  # fmt: skip
def test_what_cannot_be_int8_says_why_and_is_in_no_group(
    body: str, weights: dict[str, Any], says: str
) -> None:
    model = build(
        f"(float[batch,length,4] x) => (float[batch,length,4] y, float h0) "
        f"{{ {body} h0 = ReduceMax<keepdims=0>(h) y = MatMul(x, wy) }}",
        {**weights, "wy": W},
    )
    record = described(model, batch=1, length=3)
    found = layer(record, "h")
    assert says in found.float_reason and found.group == ""
    assert [group.layers for group in record.groups] == [("n_y",)]


def test_a_product_of_two_variables_is_no_layer() -> None:
    model = build(
        "(float[batch,4,4] x) => (float[batch,4,4] y) { h = MatMul(x, x) y = MatMul(h, w) }",
        {"w": W},
    )
    assert [x.name for x in described(model).layers] == ["n_y"]


def test_a_model_without_layers_is_refused() -> None:
    model = build("(float[batch,4] x) => (float[batch,4] y) { y = Relu(x) }")
    with pytest.raises(QuantflowError, match="QF210") as caught:
        described(model)
    (problem,) = caught.value.problems
    assert problem.where and problem.fix


@pytest.mark.parametrize("shape", [(1, 1), (4, 1), ()])
def test_a_model_whose_layers_all_stay_float_is_refused_with_the_reasons(
    shape: tuple[int, ...],
) -> None:
    model = build(
        "(float[4,4] x) => (float[4,4] y) { a = Gemm(x, w, c) b = Gemm(a, w, c) y = MatMul(w, b) }",
        {"w": W, "c": rand(*shape)},
    )
    with pytest.raises(QuantflowError, match="QF210") as caught:
        described(model)
    gemm, product = caught.value.problems
    assert "bias is not a 1-D constant" in gemm.what and gemm.where == "n_a, n_b" and gemm.fix
    assert "left operand" in product.what and product.where == "n_y"


def test_a_weight_that_two_layers_share_is_named_in_both() -> None:
    # C19
    model = build(
        "(float[batch,4] x) => (float[batch,4] y) "
        "{ h = MatMul(x, w) r = Relu(h) y = MatMul(r, w) }",
        {"w": W},
    )
    assert [x.weight for x in described(model).layers] == ["w", "w"]


# --- bias --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "bias", "output"),
    [
        ("y = Add(h, c)", "c", "y"),
        ("y = Add(c, h)", "c", "y"),
        ("y = Add(h, x)", None, "h"),  # not constant
        ("y = Add(h, h)", None, "h"),
        ("a = Add(h, c) y = Mul(a, h)", None, "h"),  # the product is used twice
        ("y = Add(h, one)", None, "h"),  # a 1-D constant of another length
        ("y = Add(h, scalar)", None, "h"),
        ("y = Add(h, row)", None, "h"),  # 2-D
        ("y = Sub(h, c)", None, "h"),
        ("r = Relu(h) y = Add(r, c)", None, "h"),
    ],
)
def test_a_bias_is_a_vector_added_to_a_product_that_nothing_else_reads(
    body: str, bias: str | None, output: str
) -> None:
    model = build(
        f"(float[batch,4] x) => (float[batch,4] y) {{ h = MatMul(x, w) {body} }}",
        {"w": W, "c": rand(4), "one": rand(1), "scalar": np.float32(2), "row": rand(1, 4)},
    )
    found = layer(described(model), "h")
    assert (found.bias, found.output) == (bias, output)
    assert found.bias_node == ("n_y" if bias else None)


def test_a_product_that_is_an_output_has_no_bias() -> None:
    model = build(
        "(float[batch,4] x) => (float[batch,4] y, float[batch,4] h) "
        "{ h = MatMul(x, w) y = Add(h, c) }",
        {"w": W, "c": rand(4)},
    )
    found = layer(described(model), "h")
    assert (found.bias, found.output) == (None, "h")


def test_the_bias_of_an_addition_comes_second() -> None:
    model = build(
        "(float[batch,4] x) => (float[batch,4] y) { h = MatMul(x, w) y = Add(c, h) }",
        {"w": W, "c": rand(4)},
    )
    result, _ = canonical(model)
    (add,) = [node for node in result.graph if node.op_type == "Add"]
    assert [value.name for value in add.inputs if value] == ["h", "c"]


# --- multiply-accumulates ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "weights", "macs"),
    [
        # rows x K x N
        ("(float[batch,length,4] x) => (float y) { h = MatMul(x, w) S }", {"w": rand(4, 6)},
         5 * 4 * 6),
        ("(float[batch,4] x) => (float y) { h = Gemm<transB=1>(x, w) S }", {"w": rand(6, 4)},
         4 * 6),
        ("(float[batch,length,4] x) => (float y) { h = MatMul(x, w) S }", {"w": rand(4)}, 5 * 4),
        ("(float[batch,4,length] x) => (float y) { h = MatMul(w, x) S }", {"w": rand(6, 4)},
         6 * 4 * 5),
        # outputs x channels a group x kernel
        ("(float[batch,4,9,9] x) => (float y) { h = Conv<strides=[2,2]>(x, w) S }",
         {"w": rand(6, 4, 3, 3)}, 6 * 4 * 4 * 4 * 9),
        ("(float[batch,4,9,9] x) => (float y) { h = Conv<group=4, pads=[1,1,1,1]>(x, w) S }",
         {"w": rand(4, 1, 3, 3)}, 4 * 81 * 9),
        # inputs x output channels a group x kernel
        ("(float[batch,4,5,5] x) => (float y) { h = ConvTranspose<group=2>(x, w) S }",
         {"w": rand(4, 3, 2, 2)}, 4 * 25 * 3 * 4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("batch", [1, 3])
def test_multiply_accumulates_of_one_sample_are_those_of_a_hand_count(
    text: str, weights: dict[str, Any], macs: int, batch: int
) -> None:
    tail = (
        "m = ReduceMax<keepdims=0>(h) z = MatMul(u, v) k = ReduceMax<keepdims=0>(z) y = Add(m, k)"
    )
    inputs = text.replace("S }", f"{tail} }}").replace(" x) =>", " x, float[batch,2] u) =>")
    record = described(build(inputs, {**weights, "v": rand(2, 2)}), batch=batch, length=5)
    assert layer(record, "h").macs == macs
    assert layer(record, "z").macs == 4
    assert record.groups[-1].macs == 4


def test_a_batch_that_the_model_fixes_is_not_counted() -> None:
    model = build("(float[8,4] x) => (float[8,3] y) { y = MatMul(x, w) }", {"w": rand(4, 3)})
    result, _ = canonical(model)
    assert describe_model(result, {}, mask=None, notes=[]).layers[0].macs == 12


# --- groups ------------------------------------------------------------------------------------


def test_all_layers_that_read_one_tensor_are_a_group() -> None:
    model = build(
        "(float[batch,4] x) => (float[batch,4] y) { a = MatMul(x, w) c = MatMul(x, w2) "
        "d = Gemm(x, w3) s = Add(a, c) t = Add(s, d) y = MatMul(t, w) }",
        {"w": W, "w2": rand(4, 4, seed=1), "w3": rand(4, 4, seed=2)},
    )
    record = described(model)
    assert [(g.tensor, g.layers, g.macs) for g in record.groups] == [
        ("x", ("n_a", "n_c", "n_d"), 48), ("t", ("n_y",), 16),
    ]  # fmt: skip
    assert all(x.group == g.name for g in record.groups for x in record.layers_of(g.tensor))


@pytest.mark.parametrize(
    ("names", "name"),
    [
        (["a.b.q", "a.b.k", "a.b.v"], "a.b.q+k+v"),
        (["/l/q/MatMul", "/l/k/MatMul"], "/l/q/MatMul+k/MatMul"),
        (["query", "key"], "query+key"),
        (["a.b", "a.b.c"], "a.b+b.c"),
        (["only.one"], "only.one"),
    ],
)
def test_a_group_is_named_by_the_common_path_and_the_differing_ends(
    names: list[str], name: str
) -> None:
    assert group_name(names) == name


def test_groups_never_share_a_name() -> None:
    model = build(
        "(float[batch,4] x, float[batch,4] z) => (float[batch,4] y) { a = MatMul(x, w) "
        "c = MatMul(x, w2) d = MatMul(z, w) s = Add(a, c) y = Add(s, d) }",
        {"w": W, "w2": rand(4, 4, seed=1)},
    )
    for node, name in zip(model.graph.node, ("p.a", "p.b", "p.a+b"), strict=False):
        node.name = name
    names = [group.name for group in described(model).groups]
    assert len(set(names)) == len(names) == 2


# --- padding -----------------------------------------------------------------------------------


def test_padding_layouts_follow_the_shapes() -> None:
    model = build(
        """(float[batch,length,4] x, int64[batch,length] m) => (float[batch,2] y) {
        h = MatMul(x, w) r = Relu(h) f = Reshape(r, flat) g = Gemm(f, w2) k = Tanh(g)
        s = Shape(x) k1 = Reshape(k, s) t = Transpose<perm=[0,2,1]>(k1)
        u = Reshape(t, swapped) v = MatMul(u, w3) p = ReduceMean<keepdims=0>(v, one)
        y = MatMul(p, w4) }""",
        {
            "w": W, "w2": rand(4, 4, seed=1), "w3": rand(2, 2), "w4": rand(2, 2, seed=1),
            "flat": np.int64([-1, 4]), "swapped": np.int64([0, -1, 2]), "one": np.int64([1]),
        },
    )  # fmt: skip
    record = described(model, mask="m", batch=1, length=6)
    assert {p.tensor: p.layout for p in record.padding} == {
        "x": "positions", "f": "flat", "u": "none", "p": "none",
    }  # fmt: skip


def test_without_a_mask_or_with_one_that_is_not_2_d_padding_is_unknown() -> None:
    text = "(float[batch,length,4] x, int64[batch,length,1] m) => (float[batch,length,4] y) " \
           "{ f = Cast<to=1>(m) g = Mul(x, f) y = MatMul(g, w) }"  # fmt: skip
    model = build(text, {"w": W})
    assert described(model, batch=1, length=6).padding == ()
    record = described(model, mask="m", batch=1, length=6)
    assert [p.layout for p in record.padding] == ["none"]


def test_a_model_of_few_positions_can_be_probed() -> None:
    model = build(
        """(int64[batch,length] ids, int64[batch,length] m) => (float[batch,length,4] y) {
        e = Gather(table, ids) s = Shape<start=1, end=2>(ids) p = Slice(positions, zero, s, zero)
        a = Add(e, p) y = MatMul(a, w) }""",
        {"w": W, "table": rand(9, 4), "positions": rand(10, 4), "zero": np.int64([0])},
    )
    record = described(model, mask="m", batch=1, length=6)
    assert [(p.tensor, p.layout) for p in record.padding] == [("a", "positions")]


def test_a_fixed_length_is_recognised_too() -> None:
    model = build(
        "(float[batch,6,4] x, int64[batch,6] m) => (float[batch,6,4] y) "
        "{ f = Reshape(x, flat) g = Gemm(f, w) h = Reshape(g, back) y = MatMul(h, w2) }",
        {"w": W, "w2": rand(4, 4, seed=1), "flat": np.int64([-1, 4]), "back": np.int64([-1, 6, 4])},
    )
    record = described(model, mask="m")
    assert {p.tensor: p.layout for p in record.padding} == {"f": "flat", "h": "positions"}
