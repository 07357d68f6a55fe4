"""fp16 emulation: every node rounds, islands do not, and onnxruntime leaves the rounding in."""

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import TensorProto, helper

from quantflow.errors import QuantflowError
from quantflow.graph.passes.emulate_fp16 import SELECTING_OPS, emulate_fp16
from tests.export.builders import onnx_model, run


def fp16(x):
    with np.errstate(over="ignore"):
        return np.asarray(x, np.float32).astype(np.float16).astype(np.float32)


def square_mean():
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"], name="square"),
        helper.make_node("ReduceMean", ["square"], ["y"], name="mean", keepdims=0),
    ]
    return onnx_model(nodes, {"x": [4]}, ["y"], {})


@pytest.mark.parametrize("optimize", [True, False])
def test_a_planted_overflow_is_infinite_and_an_island_holds_it(optimize):
    x = {"x": np.full(4, 1000, np.float32)}
    plain = emulate_fp16(square_mean(), frozenset())
    assert run(plain, x, optimize=optimize)["y"] == np.inf
    islands = emulate_fp16(square_mean(), frozenset({"square", "mean"}))
    assert run(islands, x, optimize=optimize)["y"] == 1e6
    # One island alone: the mean is an fp16 node and reads its input in fp16.
    half = emulate_fp16(square_mean(), frozenset({"square"}))
    assert run(half, x, optimize=optimize)["y"] == np.inf


@settings(max_examples=25)
@given(
    x=arrays(np.float32, (3, 4), elements=st.floats(-300, 300, width=32)),
    w=arrays(np.float32, (4, 5), elements=st.floats(-300, 300, width=32)),
    b=arrays(np.float32, (5,), elements=st.floats(-1e5, 1e5, width=32)),
    optimize=st.booleans(),
)
def test_each_node_reads_and_writes_fp16_and_accumulates_in_float32(x, w, b, optimize):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="p"),
        helper.make_node("Add", ["p", "b"], ["s"], name="s"),
        helper.make_node("Transpose", ["s"], ["t"], name="t", perm=[1, 0]),
        helper.make_node("Mul", ["t", "third"], ["y"], name="y"),
    ]
    constants = {"w": w, "b": b, "third": np.array(1 / 3, np.float32)}
    model = onnx_model(nodes, {"x": [3, 4]}, ["p", "s", "y"], constants)
    got = run(emulate_fp16(model, frozenset()), {"x": x}, optimize=optimize)
    exact = fp16(x).astype(np.float64) @ fp16(w).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        spacing = np.spacing(np.abs(fp16(exact)).astype(np.float16)).astype(np.float64)
    finite = np.isfinite(fp16(exact)) & np.isfinite(spacing)
    # float32 accumulation may turn a rounding tie, so one fp16 step is the bound.
    assert (np.abs(got["p"] - exact)[finite] <= spacing[finite]).all()
    assert np.array_equal(got["p"], fp16(got["p"]))
    with np.errstate(invalid="ignore"):
        sums = fp16(got["p"] + fp16(b))
        products = fp16(sums.T * fp16(1 / 3))
    assert np.array_equal(got["s"], sums, equal_nan=True)
    assert np.array_equal(got["y"], products, equal_nan=True)


@pytest.mark.parametrize("optimize", [True, False])
def test_values_beyond_fp16_become_infinite_and_small_ones_flush_like_numpy(optimize):
    x = np.array([65504, 65519, 65520, 1e30, -1e30, 2**-25, 3e-8, 1e-7], np.float32)
    model = onnx_model([helper.make_node("Relu", ["x"], ["r"], name="r"),
                        helper.make_node("Mul", ["x", "one"], ["y"], name="y")],
                       {"x": [8]}, ["r", "y"], {"one": np.array(1, np.float32)})  # fmt: skip
    got = run(emulate_fp16(model, frozenset()), {"x": x}, optimize=optimize)
    assert np.array_equal(got["y"], fp16(x))
    assert np.array_equal(got["r"], np.maximum(fp16(x), 0))


def test_a_constant_read_by_an_island_and_an_fp16_node_is_unrounded_for_the_island():
    nodes = [
        helper.make_node("Mul", ["x", "c"], ["wide"], name="wide"),
        helper.make_node("Mul", ["x", "c"], ["narrow"], name="narrow"),
    ]
    c = np.array([0.1, 100000.0], np.float32)
    model = onnx_model(nodes, {"x": [2]}, ["wide", "narrow"], {"c": c})
    got = run(emulate_fp16(model, frozenset({"wide"})), {"x": np.ones(2, np.float32)})
    assert np.array_equal(got["wide"], c)
    assert np.array_equal(got["narrow"], fp16(c))
    assert np.array_equal(model.graph.initializers["c"].const_value.numpy(), c)


def test_an_island_output_is_unrounded_for_islands_and_rounded_for_others():
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["s"], name="s"),
        helper.make_node("Mul", ["s", "small"], ["wide"], name="wide"),
        helper.make_node("Relu", ["s"], ["narrow"], name="narrow"),
    ]
    constants = {"small": np.array(2**-10, np.float32)}
    model = onnx_model(nodes, {"x": [1]}, ["s", "wide", "narrow"], constants)
    got = run(emulate_fp16(model, frozenset({"s", "wide"})), {"x": np.array([1000], np.float32)})
    assert got["s"] == 1e6
    assert got["wide"] == np.float32(1e6 * 2**-10)
    assert got["narrow"] == np.inf


def test_names_of_outputs_and_interior_values_are_kept_for_the_rounded_tensors():
    model = square_mean()
    emulated = emulate_fp16(model, frozenset())
    assert [value.name for value in emulated.graph.outputs] == ["y"]
    names = [value.name for node in emulated.graph for value in node.outputs]
    assert "square" in names and len(names) == len(set(names))
    producer = next(n for n in emulated.graph for v in n.outputs if v.name == "square")
    assert producer.op_type == "Cast"
    assert [node.op_type for node in model.graph] == ["Mul", "ReduceMean"]


def test_fresh_names_give_way_to_names_that_exist():
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], name="a/narrow"),
        helper.make_node("Exp", ["a"], ["a/fp32"], name="e"),
    ]
    model = onnx_model(nodes, {"x": [2]}, ["a/fp32"], {})
    emulated = emulate_fp16(model, frozenset())
    names = [v.name for n in emulated.graph for v in n.outputs] + [n.name for n in emulated.graph]
    values = names[: len(names) // 2]
    assert len(values) == len(set(values))
    assert len({n.name for n in emulated.graph}) == emulated.graph.num_nodes()
    x = np.array([0.3, 1.7], np.float32)
    expected = fp16(np.exp(fp16(np.exp(fp16(x)))))
    assert np.allclose(run(emulated, {"x": x})["a/fp32"], expected, rtol=2e-3)


def test_selecting_operators_need_no_casts_of_their_own():
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["a"], name="a"),
        helper.make_node("Reshape", ["a", "shape"], ["b"], name="b"),
        helper.make_node("Transpose", ["b"], ["c"], name="c"),
        helper.make_node("Concat", ["c", "k"], ["y"], name="y", axis=0),
    ]
    k = np.array([[0.1, 0.2]], np.float32)
    model = onnx_model(nodes, {"x": [4]}, ["y"], {"shape": np.array([2, 2]), "k": k})
    emulated = emulate_fp16(model, frozenset())
    casts = sum(node.op_type == "Cast" for node in emulated.graph)
    assert casts == 4  # the input and the product, each to fp16 and back
    x = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    expected = np.concatenate([fp16(fp16(x) * fp16(x)).reshape(2, 2).T, fp16(k)])
    assert np.array_equal(run(emulated, {"x": x})["y"], expected)


def test_no_arithmetic_counts_as_selecting():
    arithmetic = {"Add", "Sub", "Mul", "Div", "MatMul", "Gemm", "Softmax", "ReduceSum", "Erf",
                  "ReduceMean", "Sqrt", "Pow", "Exp", "Cast", "Conv", "AveragePool", "Resize",
                  "AscendDequant", "If"}  # fmt: skip
    assert not SELECTING_OPS & arithmetic


@pytest.mark.parametrize("optimize", [True, False])
def test_nodes_in_if_bodies_round_too(optimize):
    def branch(name, constant):
        nodes = [
            helper.make_node("Mul", ["h", "h"], [f"{name}_s"], name=f"{name}_s"),
            helper.make_node("Mul", [f"{name}_s", constant], [f"{name}_y"], name=f"{name}_y"),
        ]
        out = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [1])
        return helper.make_graph(nodes, name, [], [out])

    nodes = [
        helper.make_node("Mul", ["x", "one"], ["h"], name="h"),
        helper.make_node("If", ["flag"], ["y"], name="if",
                         then_branch=branch("then", "k"), else_branch=branch("other", "one")),
    ]  # fmt: skip
    constants = {
        "one": np.array(1, np.float32), "k": np.array(1e-3, np.float32), "flag": np.array(True),
    }  # fmt: skip
    model = onnx_model(nodes, {"x": [1]}, ["y"], constants)
    x = {"x": np.array([1000], np.float32)}
    assert run(model, x)["y"] == np.float32(1e6 * np.float32(1e-3))
    assert run(emulate_fp16(model, frozenset()), x, optimize=optimize)["y"] == np.inf


def test_integer_tensors_are_left_alone():
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], name="n"),
        helper.make_node("Cast", ["n"], ["y"], name="y", to=TensorProto.FLOAT),
    ]
    model = onnx_model(nodes, {"x": [1, 2, 3]}, ["y"], {})
    emulated = emulate_fp16(model, frozenset())
    assert [node.op_type for node in emulated.graph].count("Shape") == 1
    got = run(emulated, {"x": np.zeros((1, 2, 3), np.float32)})
    assert got["y"].tolist() == [1, 2, 3]


def test_an_unknown_element_type_is_an_error_that_names_the_value():
    x = ir.val("x", ir.DataType.FLOAT, [2])
    node = ir.node("Mystery", [x], name="m")
    node.outputs[0].name = "strange"
    graph = ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 17}, name="g")
    with pytest.raises(QuantflowError, match=r"QF541.*strange"):
        emulate_fp16(ir.Model(graph, ir_version=10), frozenset())
