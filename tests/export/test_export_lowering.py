"""The lowered file computes, bit for bit, what the dialect says of the file."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from quantflow.errors import QuantflowError
from quantflow.export.deploy import pack_deq_scale
from quantflow.export.lowering import lower
from tests.export.builders import (
    array_of,
    export,
    linear,
    node_of,
    onnx_model,
    reload,
    run,
    run_deployed_linear,
)


def lowered(deploy, *, fp19=False, emulate_fp16=False, islands=()):
    return lower(reload(deploy), fp19=fp19, emulate_fp16=emulate_fp16, islands=frozenset(islands))


def deploy_by_hand(w, bias, scale, offset, packed, kind, rows):
    """A deploy file with any factors, whatever export would choose."""
    x = ir.val("x", ir.DataType.FLOAT, [rows, w.shape[0]])
    constants = {
        name: ir.Value(name=name, const_value=ir.tensor(array, name=name),
                       type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
                       shape=ir.Shape(array.shape))
        for name, array in (("w", w), ("b", bias), ("s", packed)) if array is not None
    }  # fmt: skip
    attributes = [ir.AttrFloat32("scale", float(scale)), ir.AttrFloat32("offset", float(offset)),
                  ir.AttrString("dst_type", "INT8")]  # fmt: skip
    quant = ir.Node("", "AscendQuant", [x], attributes, name="q")
    inputs = [quant.outputs[0], constants["w"]]
    inputs += [constants["b"]] if kind == "Gemm" and bias is not None else []
    nodes = [quant, ir.Node("", kind, inputs, name="l")]
    if kind == "MatMul" and bias is not None:
        nodes.append(ir.Node("", "Add", [nodes[-1].outputs[0], constants["b"]], name="add"))
    nodes.append(ir.Node("", "AscendDequant", [nodes[-1].outputs[0], constants["s"]],
                         [ir.AttrInt64("dtype", 0)], name="d"))  # fmt: skip
    for node, dtype in zip(nodes, ("INT8", "INT32", "INT32"), strict=False):
        node.outputs[0].name = f"{node.name}_out"
        node.outputs[0].type = ir.TensorType(ir.DataType[dtype])
    y = nodes[-1].outputs[0]
    y.name, y.type = "y", ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([x], [y], nodes=nodes, initializers=list(constants.values()),
                     opset_imports={"": 17}, name="main")  # fmt: skip
    return ir.Model(graph, ir_version=10)


@settings(max_examples=60)
@given(
    rows=st.integers(1, 5),
    k=st.integers(1, 40),
    n=st.integers(1, 20),
    kind=st.sampled_from(["MatMul", "Gemm"]),
    biased=st.booleans(),
    one_scale=st.booleans(),
    log_scale=st.floats(-22.9, 22.9),
    offset=st.integers(-128, 127),
    fp19=st.booleans(),
    optimize=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_the_lowered_file_equals_the_integer_reference_bit_for_bit(
    rows, k, n, kind, biased, one_scale, log_scale, offset, fp19, optimize, seed
):
    rng = np.random.default_rng(seed)
    w = rng.integers(-127, 128, (k, n)).astype(np.int8)
    bias = rng.integers(-(2**24), 2**24, n).astype(np.int32) if biased else None
    packed = pack_deq_scale(np.exp(rng.uniform(-20, 5, 1 if one_scale else n)).astype(np.float32))
    scale = np.float32(2.0**log_scale)
    deploy = deploy_by_hand(w, bias, scale, offset, packed, kind, rows)
    # Well inside, on the ties, and far outside of the range.
    steps = rng.integers(-400, 400, (rows, k)) * 0.5
    x = (steps / float(scale)).astype(np.float32)
    x.flat[0] = 3e38
    expected = run_deployed_linear(deploy, x, fp19=fp19)
    y = run(lowered(deploy, fp19=fp19), {"x": x}, optimize=optimize)["y"]
    assert np.array_equal(y, expected)


@pytest.mark.parametrize("offset", [-128, -1, 0, 3, 127])
def test_every_rounding_tie_and_both_infinities_quantize_as_defined(offset):
    x = np.concatenate([np.arange(-600, 600) / 2, [np.inf, -np.inf]]).astype(np.float32)[None]
    k = x.shape[1]
    deploy = deploy_by_hand(np.eye(k, dtype=np.int8), None, 1.0, offset,
                            pack_deq_scale(np.ones(1, np.float32)), "MatMul", 1)  # fmt: skip
    y = run(lowered(deploy), {"x": x})["y"][0]
    # numpy's rint is IEEE 754 roundTiesToEven.
    expected = np.clip(np.rint(x[0].astype(np.float64)) + offset, -128, 127) - offset
    assert np.array_equal(y, expected)


def test_the_worst_accumulator_does_not_saturate():
    # u8 x s8 products saturate on AVX2 unless told otherwise.
    w = np.full((64, 3), 127, np.int8)
    deploy = deploy_by_hand(w, None, 1.0, -128, pack_deq_scale(np.ones(1, np.float32)), "MatMul", 2)
    y = run(lowered(deploy), {"x": np.full((2, 64), 255, np.float32)})["y"]
    assert (y == 64 * 255 * 127).all()


def test_fp19_drops_the_low_13_mantissa_bits_of_the_scale_and_nothing_else():
    scale = np.array([0x3F801FFF, 0x3F802000], np.uint32).view(np.float32)
    deploy = deploy_by_hand(np.ones((1, 2), np.int8), None, 1.0, 0, pack_deq_scale(scale),
                            "MatMul", 1)  # fmt: skip
    x = {"x": np.ones((1, 1), np.float32)}
    assert run(lowered(deploy, fp19=True), x)["y"][0].view(np.uint32).tolist() == [
        0x3F800000, 0x3F802000,
    ]  # fmt: skip
    assert np.array_equal(run(lowered(deploy), x)["y"][0], scale)


def test_the_lowered_model_is_standard_onnx_without_quantize_operators():
    rng = np.random.default_rng(1)
    exported = export(linear(rng.normal(size=(6, 5)).astype(np.float32), None, "Gemm"),
                      {"x": (-1.0, 3.0)})  # fmt: skip
    for emulate in (True, False):
        model = lowered(exported.deploy, fp19=True, emulate_fp16=emulate)
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
        ops = {node.op_type for node in model.graph}
        assert "MatMulInteger" in ops
        assert not any("Ascend" in op or "QuantizeLinear" in op for op in ops)


def three_dimensional(names):
    """A float part around an INT8 layer on (2, 3, K) tensors, every output under its own name."""
    rng = np.random.default_rng(2)
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["h"], name="square"),
        helper.make_node("MatMul", ["h", "w"], ["p"], name="l"),
        helper.make_node("Add", ["p", "b"], ["s"], name="bias"),
        helper.make_node("Mul", ["s", "tenth"], ["y"], name="tenth"),
    ]
    constants = {"w": rng.normal(size=(4, 5)).astype(np.float32),
                 "b": rng.normal(size=5).astype(np.float32),
                 "tenth": np.array(0.1, np.float32)}  # fmt: skip
    return onnx_model(nodes, {"x": [2, 3, 4]}, names, constants)


def fp16(x):
    return np.asarray(x, np.float32).astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("islands", [frozenset(), frozenset({"l"}), frozenset({"bias"}),
                                     frozenset({"square", "l", "tenth"})])  # fmt: skip
def test_fp16_emulation_rounds_the_float_side_of_an_int8_layer_unless_it_is_an_island(islands):
    exported = export(three_dimensional(["h", "s", "y"]), {"h": (0.0, 9.0)}, islands=list(islands))
    deploy = exported.deploy
    quant, dequant = node_of(deploy, "AscendQuant"), node_of(deploy, "AscendDequant")
    scale, offset = (quant.attributes[name].value for name in ("scale", "offset"))
    x = np.random.default_rng(3).uniform(-3, 3, (2, 3, 4)).astype(np.float32)
    wide = bool({"l", "bias"} & islands)
    square = x * x if "square" in islands else fp16(fp16(x) * fp16(x))
    q = np.clip(np.rint((square if wide else fp16(square)) * np.float32(scale)) + offset, -128, 127)
    weight = array_of(deploy, node_of(deploy, "MatMul").inputs[1]).astype(np.int64)
    bias = array_of(deploy, node_of(deploy, "Add").inputs[1])
    accumulator = (q.astype(np.int64) - int(offset)) @ weight + bias
    scales = array_of(deploy, dequant.inputs[1]).astype(np.uint32).view(np.float32)
    layer = accumulator.astype(np.float32) * scales
    layer = layer if wide else fp16(layer)
    tenth = np.float32(0.1)
    expected = layer * tenth if "tenth" in islands else fp16(fp16(layer) * fp16(tenth))
    for optimize in (True, False):
        model = lowered(deploy, emulate_fp16=True, islands=islands)
        got = run(model, {"x": x}, optimize=optimize)
        assert np.array_equal(got["h"], square)
        assert np.array_equal(got["s"], layer)
        assert np.array_equal(got["y"], expected)


def test_an_overflow_at_an_int8_layers_output_is_infinite_and_its_island_holds_it():
    w = np.full((4, 1), 1000.0, np.float32)
    exported = export(linear(w, None, "MatMul"), {"x": (0.0, 100.0)})
    x = {"x": np.full((4, 4), 100.0, np.float32)}
    assert (run(lowered(exported.deploy, emulate_fp16=True), x)["y"] == np.inf).all()
    held = run(lowered(exported.deploy, emulate_fp16=True, islands=["l"]), x)["y"]
    assert np.allclose(held, 400_000, rtol=0.01)


def refused(change):
    exported = export(linear(np.eye(3, dtype=np.float32), np.ones(3, np.float32), "MatMul"),
                      {"x": (-1.0, 1.0)})  # fmt: skip
    deploy = reload(exported.deploy)
    change(deploy)
    with pytest.raises(QuantflowError, match="QF544") as caught:
        lower(deploy, fp19=False, emulate_fp16=False, islands=frozenset())
    return str(caught.value)


def test_an_attribute_of_the_wrong_type_is_refused_since_the_compiler_would_read_0():
    # C40
    def integer_offset(deploy):
        quant = node_of(deploy, "AscendQuant")
        quant.attributes["offset"] = ir.AttrInt64("offset", 3)

    assert "offset" in refused(integer_offset)

    def no_scale(deploy):
        del node_of(deploy, "AscendQuant").attributes["scale"]

    assert "scale" in refused(no_scale)


def test_other_departures_from_the_dialect_are_refused():
    def half_output(deploy):
        node_of(deploy, "AscendDequant").attributes["dtype"] = ir.AttrInt64("dtype", 1)

    def float_reader(deploy):
        relu = ir.node("Relu", [node_of(deploy, "AscendQuant").outputs[0]], name="relu")
        relu.outputs[0].name, relu.outputs[0].type = "r", ir.TensorType(ir.DataType.INT8)
        deploy.graph.append(relu)

    def float_weight(deploy):
        value = node_of(deploy, "MatMul").inputs[1]
        value.const_value = ir.tensor(np.eye(3, dtype=np.float32), name=value.name)

    for change in (half_output, float_reader, float_weight):
        refused(change)
