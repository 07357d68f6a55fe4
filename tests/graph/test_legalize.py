"""What a target lacks is rewritten, and computes the same; what cannot be is said by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from quantflow.errors import QuantflowError
from quantflow.graph.edit import opset
from quantflow.graph.lower_opset import lower_opset

from .models import Arrays, assert_canonical, assert_close, build, canonical, check_same, ops, rand
from .models import run as run_ort


def check(
    model: onnx.ModelProto, feeds: Arrays, cann: Any = "8.0", *, tolerance: float = 2e-6
) -> ir.Model:
    """The canonical form for a target, held against onnx's reference implementation."""
    result, _ = canonical(model, cann)
    assert_canonical(result, 16 if cann == "8.0" else 18)
    names = [value.name for value in model.graph.output]
    expected = ReferenceEvaluator(model).run(names, dict(feeds))
    assert_close(run_ort(result, feeds), dict(zip(names, expected, strict=True)), tolerance)
    return result


X3 = {"x": rand(2, 5, 6)}
X4 = {"x": rand(2, 6, 5, 4)}

# --- operators that the table lacks ------------------------------------------------------------


@pytest.mark.parametrize("cann", ["2026", "8.0"])
@pytest.mark.parametrize("alpha", ["", "<alpha=1.0>", "<alpha=1.702>"])
def test_swish_becomes_a_gated_sigmoid(alpha: str, cann: str) -> None:
    model = build(f"(float[b,5,6] x) => (float[b,5,6] y) {{ y = Swish{alpha}(x) }}", opset=24)
    result = canonical(model, "8.0" if cann == "8.0" else "2026")[0]
    factor = 1.702 if "702" in alpha else 1.0
    x = X3["x"].astype(np.float64)
    assert_close(run_ort(result, X3), {"y": (x / (1 + np.exp(-factor * x))).astype("f4")}, 1e-6)
    assert ops(result) == ["Mul"] * (factor != 1.0) + ["Sigmoid", "Mul"]


def test_mish_is_kept_where_there_is_a_parser_and_written_out_where_there_is_none() -> None:
    model = build("(float[b,5,6] x) => (float[b,5,6] y) { y = Mish(x) }")
    assert ops(check_same(model, X3, cann="2026")) == ["Mish"]
    assert ops(check_same(model, X3, cann="8.0")) == ["Softplus", "Tanh", "Mul"]


@pytest.mark.parametrize("attributes", ["", "<axis=1>", "<axis=-2, epsilon=0.1>"])
@pytest.mark.parametrize("cann", ["2026", "8.0"])
def test_rms_normalization_is_written_out(attributes: str, cann: str) -> None:
    model = build(
        f"(float[b,5,6] x) => (float[b,5,6] y) {{ y = RMSNormalization{attributes}(x, s) }}",
        {"s": rand(6, seed=1)},
        opset=23,
    )
    result = check(model, X3, cann)
    assert "RMSNormalization" not in ops(result)


@pytest.mark.parametrize("shape", [(2, 6, 5, 4), (2, 6, 7), (1, 6, 3, 2, 2)])
@pytest.mark.parametrize("version", [18, 21])
@pytest.mark.parametrize("cann", ["2026", "8.0"])
def test_group_normalization_becomes_instance_normalization(
    cann: str, version: int, shape: tuple[int, ...]
) -> None:
    # At 18 scale and bias have an entry a group, at 21 one a channel (ONNX GroupNormalization).
    size = 3 if version == 18 else 6
    scale, bias, x = rand(size, seed=1), rand(size, seed=2), rand(*shape)
    dims = ",".join(["b", *map(str, shape[1:])])
    model = build(
        f"(float[{dims}] x) => (float[{dims}] y) "
        "{ y = GroupNormalization<num_groups=3, epsilon=0.01>(x, s, t) }",
        {"s": scale, "t": bias},
        opset=version,
    )
    folded = x.astype(np.float64).reshape(shape[0], 3, -1)
    spread = np.sqrt(folded.var(-1, keepdims=True) + 0.01)
    normal = ((folded - folded.mean(-1, keepdims=True)) / spread).reshape(shape)
    column = (1, -1) + (1,) * (len(shape) - 2)
    each = [np.repeat(v, 6 // size).reshape(column) for v in (scale, bias)]
    result = canonical(model, "8.0" if cann == "8.0" else "2026")[0]
    expected = (normal * each[0] + each[1]).astype("f4")
    assert_close(run_ort(result, {"x": x}), {"y": expected}, 1e-5)
    assert "InstanceNormalization" in ops(result)
    assert "GroupNormalization" not in ops(result)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_is_written_out_for_both_targets(approximate: str) -> None:
    model = build(
        f'(float[b,5,6] x) => (float[b,5,6] y) {{ y = Gelu<approximate="{approximate}">(x) }}',
        opset=20,
    )
    for cann in ("2026", "8.0"):
        assert "Gelu" not in ops(check(model, X3, cann))


@pytest.mark.parametrize(
    "text", ["LayerNormalization(x, s, t)", "LayerNormalization<axis=1>(x, s)",
             "LayerNormalization<axis=-1, epsilon=0.5>(x, s, t)"],
)  # fmt: skip
def test_layer_normalization_is_kept_at_18_and_written_out_at_16(text: str) -> None:
    shape = (5, 6) if "axis=1>" in text else (6,)
    weights = {"s": rand(*shape, seed=1), "t": rand(*shape, seed=2)}
    model = build(f"(float[b,5,6] x) => (float[b,5,6] y) {{ y = {text} }}", weights)
    assert ops(check_same(model, X3, cann="2026")) == ["LayerNormalization"]
    lowered = check_same(model, X3, cann="8.0", tolerance=1e-5)
    assert "LayerNormalization" not in ops(lowered)
    assert all(len(node.inputs) == 1 for node in lowered.graph if node.op_type == "ReduceMean")


# --- what an older opset says otherwise --------------------------------------------------------

REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@pytest.mark.parametrize("attributes", ["", "<keepdims=0>", "<noop_with_empty_axes=0>"])
@pytest.mark.parametrize("axes", [[1], [-1, 1], None])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_take_their_axes_as_the_older_opset_does(
    name: str, axes: list[int] | None, attributes: str
) -> None:
    inputs = "x" if axes is None else "x, a"
    weights = {} if axes is None else {"a": np.array(axes)}
    text = f"(float[2,5,6] x) => (float[n,m,k] y) {{ y = Reduce{name}{attributes}({inputs}) }}"
    text = text.replace("float[n,m,k] y", "float y") if "keepdims=0" in attributes else text
    model = build(text, weights)
    if "keepdims=0" in attributes:
        model.graph.output[0].type.tensor_type.ClearField("shape")
    feeds = {"x": np.abs(X3["x"]) + np.float32(0.5)}
    result = check_same(model, feeds, cann="8.0", tolerance=1e-5)
    assert ops(result) == [f"Reduce{name}"]
    wants = 2 if name == "Sum" and axes is not None else 1
    assert len([x for x in next(iter(result.graph)).inputs if x is not None]) == wants


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("value", ["", ", v"])
def test_pad_names_all_axes(mode: str, value: str) -> None:
    inputs = f"x, p{value or ', '}, a"
    model = build(
        f'(float[b,6,5,4] x) => (float[b,6,n,m] y) {{ y = Pad<mode="{mode}">({inputs}) }}',
        {"p": np.array([1, 0, 2, 3]), "a": np.array([-2, 3]), "v": np.array(2.5, np.float32)},
    )
    assert ops(check_same(model, X4, cann="8.0")) == ["Pad"]


@pytest.mark.parametrize(("count", "sizes"), [(2, [3, 3]), (4, [2, 2, 2, 0]), (5, None)])
def test_split_writes_out_its_sizes(count: int, sizes: list[int] | None) -> None:
    # "If the tensor is not evenly splittable, the last chunk will be smaller" (ONNX Split-18).
    names = [f"y{i}" for i in range(count)]
    declared = ", ".join(f"float[b,5,n{i}] {name}" for i, name in enumerate(names))
    model = build(
        f"(float[b,5,6] x) => ({declared}) "
        f"{{ {', '.join(names)} = Split<axis=-1, num_outputs={count}>(x) }}"
    )
    if sizes is None:  # chunks of 2 leave nothing for the fifth, and less than that
        with pytest.raises(QuantflowError) as caught:
            canonical(model, "8.0")
        assert "num_outputs" in caught.value.problems[0].what
        return
    result, _ = canonical(model, "8.0")
    found = run_ort(result, X3)
    expected = np.split(X3["x"], np.cumsum(sizes)[:-1], axis=-1)
    assert_close(found, dict(zip(names, expected, strict=True)))


def test_a_split_of_an_axis_of_unknown_size_is_refused_by_name() -> None:
    model = build(
        "(float[b,n] x) => (float[b,m] y, float[b,k] z) { y, z = Split<axis=1, num_outputs=2>(x) }"
    )
    canonical(model, "2026")
    with pytest.raises(QuantflowError) as caught:
        canonical(model, "8.0")
    (problem,) = caught.value.problems
    assert problem.code == "QF209" and problem.where == "n_y" and "num_outputs" in problem.what


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("kind", ["scales", "sizes"])
def test_resize_names_all_axes(mode: str, kind: str) -> None:
    given = "x, , s" if kind == "scales" else "x, , , s"
    sizes = np.array([2.0, 1.5], np.float32) if kind == "scales" else np.array([10, 6])
    model = build(
        f'(float[2,6,5,4] x) => (float[2,6,n,m] y) {{ y = Resize<mode="{mode}", axes=[2, -1], '
        f'antialias=0, keep_aspect_ratio_policy="stretch">({given}) }}',
        {"s": sizes},
    )
    assert ops(check_same(model, X4, cann="8.0")) == ["Resize"]


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ('mode="linear", antialias=1', "antialias"),
        ('coordinate_transformation_mode="half_pixel_symmetric"', "half_pixel_symmetric"),
        ('keep_aspect_ratio_policy="not_larger"', "not_larger"),
    ],
)
def test_what_a_resize_cannot_say_at_16_is_named(attributes: str, said: str) -> None:
    model = build(
        f"(float[2,6,5,4] x) => (float[n,c,h,w] y) {{ y = Resize<{attributes}>(x, , , s) }}",
        {"s": np.array([2, 6, 10, 6])},
        opset=19,
    )
    with pytest.raises(QuantflowError) as caught:
        canonical(model, "8.0")
    assert {problem.code for problem in caught.value.problems} == {"QF209"}
    assert any(said in problem.what for problem in caught.value.problems)


@pytest.mark.parametrize(("mode", "old"), [("linear", "bilinear"), ("cubic", "bicubic")])
def test_grid_sample_calls_its_modes_as_before(mode: str, old: str) -> None:
    model = build(
        "(float[2,6,5,4] x, float[2,3,3,2] g) => (float[2,6,3,3] y) "
        f'{{ y = GridSample<mode="{mode}">(x, g) }}',
        opset=20,
    )
    feeds = {**X4, "g": rand(2, 3, 3, 2, seed=1, scale=0.5)}
    (node,) = check_same(model, feeds, cann="8.0", tolerance=1e-5).graph
    assert node.attributes["mode"].as_string() == old


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_reductions_of_scatter_are_kept_where_the_opset_has_them(reduction: str) -> None:
    model = build(
        f"(float[2,5,6] x) => (float[2,5,6] y) "
        f'{{ y = ScatterND<reduction="{reduction}">(x, i, u) }}',
        {"i": np.array([[1]]), "u": rand(1, 5, 6, seed=3)},
    )
    check_same(model, X3, cann="2026")
    if reduction in ("none", "add", "mul"):
        check_same(model, X3, cann="8.0")
        return
    with pytest.raises(QuantflowError) as caught:
        canonical(model, "8.0")
    assert reduction in caught.value.problems[0].what


def test_defaults_that_came_later_are_dropped() -> None:
    model = build(
        "(float[b,6,5,4] x) => (float[b,6,5,4] y) { a = AveragePool<kernel_shape=[3,3], "
        "pads=[1,1,1,1], dilations=[1,1]>(x) c = Cast<to=7, saturate=1>(a) y = Cast<to=1>(c) }",
        opset=19,
    )
    result = check_same(model, X4, cann="8.0")
    assert "dilations" not in next(iter(result.graph)).attributes


def test_an_element_type_that_came_later_is_named() -> None:
    model = build("(bool[b,4] x) => (bool[b,1] y) { y = ReduceMax(x, a) }", {"a": np.array([1])},
                  opset=20)  # fmt: skip
    with pytest.raises(QuantflowError) as caught:
        canonical(model, "2026")
    (problem,) = caught.value.problems
    assert problem.code == "QF209" and "BOOL" in problem.what and problem.where == "n_y"


def test_all_that_cannot_be_lowered_is_told_at_once() -> None:
    body = 'y = ScatterND<reduction="max">(x, i, u) z = ScatterND<reduction="min">(x, i, u)'
    model = build(
        f"(float[2,5,6] x) => (float[2,5,6] y, float[2,5,6] z) {{ {body} }}",
        {"i": np.array([[1]]), "u": rand(1, 5, 6)},
    )
    with pytest.raises(QuantflowError) as caught:
        canonical(model, "8.0")
    assert [problem.where for problem in caught.value.problems] == ["n_y", "n_z"]


@pytest.mark.parametrize("version", [19, 20, 21, 22, 23, 24])
def test_ordinary_operators_of_a_newer_opset_are_taken_as_they_are(version: int) -> None:
    model = build(
        "(float[b,6,5,4] x) => (float[b,3] y) { c = Conv(x, k) r = Relu(c) "
        "m = MaxPool<kernel_shape=[2,2]>(r) g = GlobalAveragePool(m) f = Flatten(g) "
        "q = Reshape(f, d) y = MatMul(q, w) }",
        {"k": rand(4, 6, 2, 2), "w": rand(4, 3), "d": np.array([-1, 4])},
        opset=version,
    )
    for cann, ceiling in (("2026", 18), ("8.0", 16)):
        result, notes = canonical(model, "8.0" if cann == "8.0" else "2026")
        assert opset(result) == ceiling
        assert f"opset {version} lowered to {ceiling}" in notes
    expected = ReferenceEvaluator(model).run(None, dict(X4))[0]
    assert_close(run_ort(result, X4), {"y": expected}, 1e-5)


def test_lowering_looks_into_the_branches_of_an_if() -> None:
    model = build(
        "(float[2,5,6] x, bool c) => (float[2,5,1] y) { y = If (c) "
        "<then_branch = t () => (float[2,5,1] o) { o = ReduceMax(x, a) }, "
        "else_branch = e () => (float[2,5,1] p) { p = ReduceMin(x, a) }> }",
        {"a": np.array([2])},
    )
    for flag in (True, False):
        check_same(model, {**X3, "c": np.array(flag)}, cann="8.0")


def refused_opset(model: onnx.ModelProto) -> str:
    with pytest.raises(QuantflowError) as caught:
        canonical(model, "2026")
    (problem,) = caught.value.problems
    assert problem.code == "QF209" and "opset 18" in problem.fix
    return str(problem)


def test_an_opset_that_nothing_knows_is_refused() -> None:
    newest = onnx.defs.onnx_opset_version()
    text = "(float[b,4] x) => (float[b,3] y) { y = MatMul(x, w) }"
    assert ops(canonical(build(text, {"w": rand(4, 3)}, opset=newest), "2026")[0]) == ["MatMul"]
    for version in (newest + 1, 99):
        model = build(text, {"w": rand(4, 3)}, opset=version)
        assert f"opset {version} is not known" in refused_opset(model)


def test_a_broadcast_that_only_sizes_can_raise_names_the_free_dimension() -> None:
    text = "(float[{}] x) => (float[?,4] y) {{ y = Add<axis=1, broadcast=1>(x, w) }}"
    free, fixed = (build(text.format(dims), {"w": rand(4)}, opset=6) for dims in ("n,4", "2,4"))
    said = refused_opset(free)
    assert "only without free dimensions: 'n' is" in said and "[model.inputs.NAME]" in said
    assert "Assertion" not in said
    assert ops(canonical(fixed, "2026")[0]) == ["Add"]


def test_old_files_that_list_their_weights_as_inputs_are_raised() -> None:
    # Version 3 of the format, which exporters wrote until 2019, asks for that.
    model = build("(float[b,4] x, float[4,3] w) => (float[b,3] y) { y = MatMul(x, w) }", opset=8)
    weight = rand(4, 3)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    model.ir_version = 3
    result, _ = canonical(model, "2026")
    x = rand(2, 4)
    assert_close(run_ort(result, {"x": x}), {"y": x @ weight}, 1e-6)


def test_lowering_changes_nothing_that_is_old_enough() -> None:
    model = ir.from_proto(build("(float[b,4] x) => (float[b,3] y) { y = MatMul(x, w) }",
                                {"w": rand(4, 3)}))  # fmt: skip
    lower_opset(model, 16)
    assert opset(model) == 16 and [node.op_type for node in model.graph] == ["MatMul"]


# --- layers in other words ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("equation", "shape", "weight", "linear"),
    [
        ("bsk,kn->bsn", (2, 3, 4), (4, 5), True),
        ("bsk, nk -> bsn", (2, 3, 4), (5, 4), True),
        ("...k,kn->...n", (2, 3, 4), (4, 5), True),
        ("bk,nk->bn", (2, 4), (5, 4), True),
        ("bsk,kn->nsb", (2, 3, 4), (4, 5), False),
        ("bkk,kn->bkn", (2, 4, 4), (4, 5), False),
        ("bsk,sn->bsn", (2, 3, 4), (3, 5), False),
        ("bk,kk->bk", (2, 4), (4, 4), False),
    ],
)
def test_an_einsum_that_is_a_linear_layer_becomes_a_matmul(
    equation: str, shape: tuple[int, ...], weight: tuple[int, ...], linear: bool
) -> None:
    x, w = rand(*shape), rand(*weight, seed=1)
    dims = ",".join("nmopq"[: len(shape)])
    model = build(
        f'(float[{dims}] x) => (float[r,s,t] y) {{ y = Einsum<equation="{equation}">(x, w) }}',
        {"w": w},
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    if equation == "bkk,kn->bkn":  # k in the result as well: no sum over it
        assert ops(canonical(model)[0]) == ["Einsum"]
        return
    assert ops(check_same(model, {"x": x})) == (["MatMul"] if linear else ["Einsum"])


def test_recurrent_layers_are_said_to_stay_float() -> None:
    model = build(
        "(float[4,b,3] x) => (float[4,1,b,2] y) { y = LSTM<hidden_size=2>(x, w, r) }",
        {"w": rand(1, 8, 3), "r": rand(1, 8, 2)},
    )
    assert any("LSTM" in note and "n_y" in note for note in canonical(model)[1])
