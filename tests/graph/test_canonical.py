"""The canonical form: opsets, names, constants, and what is refused in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantflow.errors import Problem, QuantflowError
from quantflow.graph.canonical import canonicalize
from quantflow.graph.edit import opset
from quantflow.graph.model_io import model_bytes

from .models import (
    all_nodes,
    assert_canonical,
    assert_close,
    build,
    canonical,
    check_same,
    nodes_of,
    ops,
    rand,
    run,
)

X = rand(5, 4, seed=1)
W = rand(4, 3)


def names(model: ir.Model) -> list[str]:
    return [str(node.name) for node in model.graph]


def refused(model: onnx.ModelProto, cann: Any = "2026") -> list[Problem]:
    with pytest.raises(QuantflowError) as caught:
        canonical(model, cann)
    return list(caught.value.problems)


# --- opsets ------------------------------------------------------------------------------------


def mixed(version: int) -> onnx.ModelProto:
    """Operators whose attributes became inputs, or changed their meaning, between opsets."""
    weights: dict[str, np.ndarray] = {"w": rand(3, 4), "c": rand(3, seed=2)}
    if version >= 13:
        weights["one"] = np.int64([1])
    squeeze = "<axes=[1]>(" if version < 13 else "(one, "
    mean = "ReduceMean<axes=[1], keepdims=1>(k)" if version < 18 else "ReduceMean(k, one)"
    clip = "Clip<min=0.1, max=2.0>(q)" if version < 11 else "Clip(q, low, high)"
    if version >= 11:
        weights |= {"low": np.float32(0.1), "high": np.float32(2.0)}
    unsqueeze = f"Unsqueeze{squeeze}s)" if version < 13 else "Unsqueeze(s, one)"
    back = f"Squeeze{squeeze}u)" if version < 13 else "Squeeze(u, one)"
    return build(
        f"(float[b,4] x) => (float[b,k] y) {{ h = Gemm<transB=1>(x, w, c) r = Relu(h) "
        f"s = Softmax<axis=1>(r) u = {unsqueeze} q = {back} k = {clip} y = {mean} }}",
        weights,
        opset=version,
    )


@pytest.mark.parametrize(
    ("version", "cann", "result"),
    [
        (9, "2026", 18), (9, "8.0", 16), (11, "2026", 18), (11, "8.0", 16), (12, "2026", 18),
        (13, "2026", 13), (13, "8.0", 13), (16, "8.0", 16), (17, "2026", 17), (17, "8.0", 16),
        (18, "2026", 18), (18, "8.0", 16), (20, "2026", 18), (20, "8.0", 16), (21, "2026", 18),
    ],
)  # fmt: skip
def test_opsets_outside_the_bounds_are_converted(version: int, cann: Any, result: int) -> None:
    # C17: below opset 13, per-channel quantization cannot be written.
    model = mixed(version)
    found = check_same(model, {"x": X}, cann=cann)
    assert opset(found) == result
    said = any("opset" in note for note in canonical(model, cann)[1])
    assert said == (result != version)


def test_softmax_of_old_opsets_over_several_axes_keeps_its_meaning() -> None:
    model = build(
        "(float[b,4,3] x) => (float[b,4,3] y, float[b,4,3] z) "
        "{ y = Softmax(x) z = LogSoftmax<axis=2>(x) }",
        opset=11,
    )
    check_same(model, {"x": rand(2, 4, 3)})


def test_operators_that_took_attributes_are_raised() -> None:
    model = build(
        """(float[b,1,4,4] x) => (float[b,1,h,w] y, float[b,1,h,w] u) {
        p = Pad<pads=[0,0,1,1,0,0,1,1], value=2.0>(x)
        s = Slice<axes=[2,3], starts=[1,0], ends=[5,6]>(p)
        d = Dropout<ratio=0.5>(s) y = Clip<min=-1.0, max=1.0>(d)
        u = Upsample<mode="nearest">(x, scales) }""",
        {"scales": np.float32([1, 1, 2, 2])},
        opset=9,
    )
    check_same(model, {"x": rand(2, 1, 4, 4)})


def test_the_domain_may_be_spelt_out() -> None:
    model = build("(float[b,4] x) => (float[b,3] y) { y = MatMul(x, w) }", {"w": W})
    model.opset_import[0].domain = "ai.onnx"
    result, _ = canonical(model)
    assert opset(result) == 18 and ops(result) == ["MatMul"]


# --- names -------------------------------------------------------------------------------------


def test_unnamed_nodes_get_names_and_weights_in_constants_are_lifted() -> None:
    # C22
    model = build(
        "(float[b,2] x) => (float[b,2] y) { w = Constant<value = float[2,2] {1., 2., 3., 4.}>() "
        "h = MatMul(x, w) r = Relu(h) y = MatMul(r, w) }",
        named=False,
    )
    result = check_same(model, {"x": rand(3, 2)})
    assert names(result) == ["MatMul", "Relu", "MatMul_1"]
    assert list(result.graph.initializers) == ["w"]


def test_names_that_several_nodes_have_become_unique_and_the_first_keeps_it() -> None:
    # C22
    model = build(
        "(float[b,4] x) => (float[b,3] y) { h = MatMul(x, w) r = Relu(h) y = Tanh(r) }", {"w": W}
    )
    expected = run(model, {"x": X})
    for node, name in zip(model.graph.node, ("same", "same", "same_1"), strict=True):
        node.name = name
    result, _ = canonical(model)
    assert names(result) == ["same", "same_2", "same_1"]
    assert_canonical(result, 18)
    assert_close(run(result, {"x": X}), expected)


def test_a_weight_is_named_after_its_only_layer_and_a_shared_one_keeps_its_name() -> None:
    model = build(
        "(float[b,4] x) => (float[b,4] y) { h = MatMul(x, a) r = Relu(h) k = MatMul(r, b0) "
        "y = Gemm(k, b0, c) }",
        {"a": rand(4, 4), "b0": rand(4, 4, seed=1), "c": rand(4)},
    )
    result = check_same(model, {"x": X})
    assert set(result.graph.initializers) == {"n_h.weight", "b0", "c"}


def test_a_weight_name_that_is_taken_is_not_given_twice() -> None:
    # C18: no collision when a tensor of the wanted name exists already.
    model = build(
        "(float[b,4] x) => (float[b,4] y) { h = MatMul(x, a) y = Add(h, b) }",
        {"a": rand(4, 4), "b": rand(4)},
    )
    model.graph.initializer[1].name = model.graph.node[1].input[1] = "n_h.weight"
    check_same(model, {"x": X})


def test_the_order_and_names_of_inputs_and_outputs_are_kept() -> None:
    model = build(
        "(float[b,4] x, float[b,4] x2, float unused) => (float[b,3] z, float[b,3] y) "
        "{ y0 = MatMul(x, w) y = Identity(y0) z = MatMul(x2, w) }",
        {"w": W},
    )
    feeds = {"x": X, "x2": X + 1, "unused": np.array(0, np.float32)}
    result = check_same(model, feeds)
    assert [value.name for value in result.graph.inputs] == list(feeds)


@pytest.mark.parametrize(
    "text",
    [
        "(float[b,4] x) => (float[b,3] y, float[b,3] z) { y = MatMul(x, w) z = Identity(y) }",
        "(float[b,4] x) => (float[b,3] z, float[b,3] y) { y = MatMul(x, w) z = Identity(y) }",
        "(float[b,4] x) => (float[b,3] y, float[b,3] z) { y = MatMul(x, w) z = MatMul(x, w) }",
        "(float[b,4] x) => (float[b,3] y, float[b,4] z) { y = MatMul(x, w) z = Identity(x) }",
        "(float[b,4] x) => (float[b,3] y, float[4,3] z) { y = MatMul(x, w) z = Add(w, w) }",
        "(float[b,4] x) => (float[b,3] y, float[4,3] w) { y = MatMul(x, w) }",
        "(float[b,4] x) => (float[b,4] a, float[b,4] c) { a = Identity(x) c = Identity(x) }",
    ],
)
def test_outputs_that_are_the_same_value_or_none_of_a_node_keep_their_names(text: str) -> None:
    check_same(build(text, {"w": W}), {"x": X})


def test_an_output_that_is_an_input_itself_leaves_the_input_its_name() -> None:
    model = build("(float[b,4] x) => (float[b,3] y, float[b,4] x) { y = MatMul(x, w) }", {"w": W})
    result, _ = canonical(model)
    assert_canonical(result, 18)
    assert [value.name for value in result.graph.inputs] == ["x"]
    found = run(result, {"x": X})
    assert list(found) == ["y", "x_output"] and np.array_equal(found["x_output"], X)


def test_initializers_that_are_inputs_too_are_no_inputs() -> None:
    model = build("(float[b,4] x, float[4,3] w) => (float[b,3] y) { y = MatMul(x, w) }", {"w": W})
    result = check_same(model, {"x": X})
    assert [value.name for value in result.graph.inputs] == ["x"]


# --- structure ---------------------------------------------------------------------------------


def test_functions_are_inlined() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
        g (float[b,4] x) => (float[b,4] y) { h = local.twice(x) k = local.twice(h) y = Relu(k) }
        <domain: "local", opset_import: ["" : 18]> twice (a) => (c) { c = Add(a, a) }"""
    )
    assert ops(check_same(model, {"x": X})) == ["Add", "Add", "Relu"]


def test_what_does_not_depend_on_the_inputs_is_folded() -> None:
    model = build(
        "(float[b,4] x) => (float[b,3] y) { t = Transpose<perm=[1,0]>(w) h = Mul(t, two) "
        "i = Identity(h) d = Dropout(x) y = MatMul(d, i) }",
        {"w": W.T.copy(), "two": np.float32(2)},
    )
    assert ops(check_same(model, {"x": X})) == ["MatMul"]


def test_q_k_and_v_are_not_fused() -> None:
    model = build(
        "(float[b,4] x) => (float[b,3] q, float[b,3] k, float[b,3] v) "
        "{ q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) }",
        {name: rand(4, 3, seed=i) for i, name in enumerate(("wq", "wk", "wv"))},
    )
    assert names(check_same(model, {"x": X})) == ["n_q", "n_k", "n_v"]


def test_a_tied_embedding_serves_the_gather_and_the_product() -> None:
    # C19
    table = rand(7, 4)
    model = build(
        "(int64[b,n] ids) => (float[b,n,7] y) { e = Gather(w, ids) r = Tanh(e) "
        "t = Transpose<perm=[1,0]>(w) y = MatMul(r, t) }",
        {"w": table},
    )
    result = check_same(model, {"ids": np.int64([[1, 2], [3, 6]])})
    (gather,), (product,) = nodes_of(result, "Gather"), nodes_of(result, "MatMul")
    assert gather.inputs[0] is not product.inputs[1]
    weight = product.inputs[1]
    assert weight is not None and weight.const_value is not None
    assert np.array_equal(weight.const_value.numpy(), table.T)


BRANCHES = """(float[b,4] x, bool c) => (float[b,3] y) {
    h = MatMul(x, w0)
    y = If (c) <
      then_branch = t () => (float[b,3] t1) { t1 = MatMul(h, w1) },
      else_branch = e () => (float[b,3] e1) { e0 = MatMul(h, w2) e1 = Relu(e0) }> }"""


@pytest.mark.parametrize("version", [11, 13, 18, 20])
def test_the_bodies_of_an_if_stay_float_and_it_is_said_by_name(version: int) -> None:
    # C21
    weights = {"w0": W, "w1": rand(3, 3, seed=5), "w2": rand(3, 3, seed=6)}
    model = build(BRANCHES, weights, opset=version)
    for flag in (True, False):
        check_same(model, {"x": X, "c": np.array(flag)})
    (note,) = [note for note in canonical(model)[1] if note.startswith("If node 'n_y'")]
    assert note.endswith("the layers in its branches stay float: MatMul, MatMul_1")


def test_nodes_of_if_bodies_have_unique_names_too() -> None:
    model = build(BRANCHES, {"w0": W, "w1": rand(3, 3), "w2": rand(3, 3)})
    for node in all_nodes(model.graph):
        if node.op_type == "MatMul":
            node.name = "same"
    result, _ = canonical(model)
    assert_canonical(result, 18)


def test_canonicalizing_twice_changes_nothing() -> None:
    model = build(
        """(float[b,2,6,6] x, float[b,1,3] m) => (float[b,3] y, float[b,1,3] p, float[b,n] q,
        float[b,4,4] z, float[2] k) {
        c0 = Conv(x, kernel) c1 = BatchNormalization(c0, s, t, mean, var) c2 = HardSwish(c1)
        g = GlobalAveragePool(c2) f = Flatten(g) h = Gemm<transB=1, alpha=0.5>(f, w, c)
        a = Add(h, big) y = Softmax(a) p = Identity(m) q = ReduceL2(h, one) z0 = Reshape(x, size)
        z = Slice(z0, i0, i4, i2) k = Add(two, two) }""",
        {
            "kernel": rand(3, 2, 3, 3), "s": rand(3), "t": rand(3), "mean": rand(3),
            "var": np.float32([1, 2, 3]), "w": rand(3, 3), "c": rand(3),
            "big": np.float32([0, 0, -1e9]), "one": np.int64([1]), "i0": np.int64([0, 0]),
            "i4": np.int64([4, 4]), "i2": np.int64([1, 2]), "size": np.int64([0, 12, 6]),
            "two": np.float32([1, 2]),
        },
    )  # fmt: skip
    feeds = {"x": rand(2, 2, 6, 6, seed=1), "m": rand(2, 1, 3)}
    first = check_same(model, feeds, tolerance=1e-5)
    second = ir.from_proto(onnx.ModelProto.FromString(model_bytes(first)))
    canonicalize(second, "2026")
    assert set(second.graph.initializers) == set(first.graph.initializers)
    assert names(second) == names(first) and ops(second) == ops(first)
    assert_close(run(second, feeds), run(first, feeds), 0)


def test_two_runs_give_the_same_bytes() -> None:
    # C33
    model = build(BRANCHES, {"w0": W, "w1": rand(3, 3), "w2": rand(3, 3)}, named=False)
    assert model_bytes(canonical(model)[0]) == model_bytes(canonical(model)[0])


def test_metadata_and_doc_strings_of_the_file_are_dropped() -> None:
    model = build("(float[b,4] x) => (float[b,3] y) { y = MatMul(x, w) }", {"w": W})
    model.doc_string = model.graph.doc_string = model.graph.node[0].doc_string = "SECRET"
    model.metadata_props.add(key="path", value="SECRET")
    model.producer_name = model.producer_version = model.graph.name = "SECRET"
    assert b"SECRET" not in model_bytes(canonical(model)[0])


# --- refusals ----------------------------------------------------------------------------------

LOOP = """(float[4] x, int64 n) => (float[4] y) { c = Constant<value = bool {1}>()
    y = Loop(n, c, x) <body = b (int64 i, bool ci, float[4] s) => (bool co, float[4] so)
    { co = Identity(ci) so = Add(s, s) }> }"""
SCAN = """(float[3,4] x, float[4] a) => (float[4] y, float[3,4] z) {
    y, z = Scan<num_scan_inputs=1, body = b (float[4] s, float[4] e) => (float[4] so, float[4] o)
    { so = Add(s, e) o = Identity(so) }>(a, x) }"""


@pytest.mark.parametrize(("text", "op"), [(LOOP, "Loop"), (SCAN, "Scan")])
def test_loops_are_refused_by_name(text: str, op: str) -> None:
    # C21
    (problem,) = refused(build(text))
    assert problem.code == "QF207" and op in problem.what and "n_y" in problem.where


def test_a_loop_inside_an_if_is_refused_too() -> None:
    inner = LOOP[LOOP.index("c = ") : LOOP.rindex("}")].replace("y = Loop", "o = Loop")
    model = build(
        f"(float[4] x, int64 n, bool f) => (float[4] y) {{ y = If (f) "
        f"<then_branch = t () => (float[4] o) {{ {inner} }}, "
        f"else_branch = e () => (float[4] r) {{ r = Relu(x) }}> }}"
    )
    assert [problem.code for problem in refused(model)] == ["QF207"]


@pytest.mark.parametrize(
    "body",
    [
        "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)",
        "q, a, c = DynamicQuantizeLinear(x) i = MatMulInteger(q, w, c) y = Cast<to=1>(i)",
    ],
)
def test_a_quantized_model_is_refused(body: str) -> None:
    model = build(
        f"(float[b,4] x) => (float[b,k] y) {{ {body} }}",
        {"s": np.float32(0.1), "z": np.uint8(3), "w": np.ones((4, 3), np.int8)},
    )
    (problem,) = refused(model)
    assert problem.code == "QF208" and "quantized" in problem.what and "float32" in problem.fix


@pytest.mark.parametrize(
    ("text", "weight", "says"),
    [
        ("(bfloat16[b,4] x) => (float[b,3] y) { v = Cast<to=1>(x) y = MatMul(v, w) }",
         np.float32, "bfloat16"),
        ("(double[b,4] x) => (double[b,3] y) { y = MatMul(x, w) }", np.float64, "double"),
        ("(float[b,4] x) => (float[b,3] y) { x0 = Cast<to=11>(x) y0 = MatMul(x0, w) "
         "y = Cast<to=1>(y0) }", np.float64, "double"),
    ],
)  # fmt: skip
def test_a_model_that_is_not_float32_is_refused(text: str, weight: Any, says: str) -> None:
    (problem,) = refused(build(text, {"w": W.astype(weight)}))
    assert problem.code == "QF208" and says in problem.what and problem.where


def test_constants_in_double_that_no_layer_reads_are_fine() -> None:
    model = build(
        "(float[b,4] x) => (float[b,3] y) { d = Sqrt(k) f = Cast<to=1>(d) s = Mul(x, f) "
        "y = MatMul(s, w) }",
        {"w": W, "k": np.float64(2)},
    )
    check_same(model, {"x": X})


def test_operators_of_another_domain_are_refused_by_name() -> None:
    model = build(
        "(float[b,4] x) => (float[b,3] y) { h = com.foo.Bar(x) y = com.foo.Baz(h, w) }",
        {"w": W},
        **{"com.foo": 1},
    )
    assert [(p.code, p.where) for p in refused(model)] == [("QF207", "n_h"), ("QF207", "n_y")]


def test_what_onnxruntime_fused_is_refused_with_the_way_back() -> None:
    model = build(
        "(float[b,4] x) => (float[b,3] y) { y = com.microsoft.FusedMatMul(x, w) }",
        {"w": W},
        **{"com.microsoft": 1},
    )
    (problem,) = refused(model)
    assert "com.microsoft.FusedMatMul" in problem.what and "before onnxruntime" in problem.fix


@pytest.mark.parametrize("version", [18, 20])
def test_operators_without_a_parser_are_named_all_at_once(version: int) -> None:
    model = build(
        "(float[b,4,3] x, int32[b] i) => (float[b,4,2] a, float[b,4,3] c, int32[b] d, "
        "float[b,4,3] e) { a = CenterCropPad<axes=[2]>(x, s) "
        "c = ThresholdedRelu(x) d = BitwiseNot(i) e = Softplus(x) }",
        {"s": np.array([2])},
        opset=version,
    )
    (problem,) = refused(model)
    assert problem.code == "QF207" and "CenterCropPad" in problem.what
    found = refused(model, "8.0")
    assert {p.code for p in found} == {"QF207"}
    assert {p.what.split("for ")[1].split()[0] for p in found} == {"CenterCropPad", "BitwiseNot"}
    assert {p.where for p in found} == {"n_a", "n_d"}


def test_an_operator_that_no_opset_in_reach_knows_is_said_before_conversion() -> None:
    model = build(
        "(float[b,3,8,8] x, float[1,2] g) => (float[b,3,k,k] y) { y = Gelu(x) }", opset=20
    )
    graph = model.graph
    graph.node.append(helper.make_node("StringConcat", ["s", "s"], ["t"], "n_t"))
    graph.input.append(helper.make_tensor_value_info("s", TensorProto.STRING, [1]))
    graph.output.append(helper.make_tensor_value_info("t", TensorProto.STRING, [1]))
    (problem,) = refused(model)
    assert problem.code == "QF207" and problem.where == "n_t"


def test_an_opset_that_cannot_be_converted_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("no adapter")

    monkeypatch.setattr(onnx.version_converter, "convert_version", broken)
    model = build("(float[b,4] x) => (float[b,3] y) { y = MatMul(x, w) }", {"w": W}, opset=12)
    (problem,) = refused(model)
    assert problem.code == "QF209" and "no adapter" in problem.what and "18" in problem.fix


def test_nothing_is_printed_about_what_cannot_be_inferred(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    model = build(
        "(float[b,4,3] x) => (float[b,4,3] y) { y = MeanVarianceNormalization(x) }", opset=18
    )
    canonical(model)
    assert not caplog.records and capfd.readouterr() == ("", "")


def test_sparse_and_other_constants_are_lifted() -> None:
    model = build("(float[b,2] x) => (float[b,2] y) { y = Mul(x, k) }", {})
    node = helper.make_node("Constant", [], ["k"], value_floats=[2.0, 3.0])
    model.graph.node.insert(0, node)
    result = check_same(model, {"x": rand(3, 2)})
    assert ops(result) == ["Mul"]
    assert numpy_helper.to_array(ir.to_proto(result).graph.initializer[0]).tolist() == [2, 3]
