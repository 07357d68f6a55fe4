"""The deploy model is written exactly as the dialect says."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from quantflow.errors import QuantflowError
from quantflow.export.deploy import boundaries, deploy_model, pack_deq_scale, unpack_deq_scale
from quantflow.export.lowering import lower
from quantflow.graph.edit import copy_model
from quantflow.graph.model_io import model_bytes
from quantflow.graph.passes.normalize_gemm import normalize_gemm
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.target.lint import lint
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

RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def block():
    """Two layers that share x, a residual, and a layer that reads their sum."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["p0"], name="first"),
        helper.make_node("Add", ["b0", "p0"], ["h0"], name="first_bias"),
        helper.make_node("MatMul", ["x", "w1"], ["h1"], name="second"),
        helper.make_node("Add", ["h0", "h1"], ["s"], name="sum"),
        helper.make_node("Add", ["s", "x"], ["r"], name="residual"),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], name="third"),
    ]
    constants = {"w0": normal(6, 6), "b0": normal(6), "w1": normal(6, 6), "w2": normal(6, 3),
                 "b2": normal(3)}  # fmt: skip
    return onnx_model(nodes, {"x": [4, 6]}, ["y", "h0"], constants)


BOUNDS = {"x": (-2.0, 3.0), "r": (-8.0, 8.0)}


def test_a_layer_becomes_quant_matmul_add_dequant():
    exported = export(linear(normal(6, 5), normal(5), "MatMul"), {"x": (-1.0, 3.0)})
    nodes = list(exported.deploy.graph)
    assert [node.op_type for node in nodes] == ["AscendQuant", "MatMul", "Add", "AscendDequant"]
    assert {node.domain for node in nodes} == {""}
    quant, product, add, dequant = nodes
    assert quant.inputs[0].name == "x" and product.inputs[0] is quant.outputs[0]
    assert add.inputs[0] is product.outputs[0] and dequant.inputs[0] is add.outputs[0]
    assert dequant.outputs[0].name == "y" and dequant.outputs[0] is exported.deploy.graph.outputs[0]
    types = [value.dtype for node in nodes for value in node.outputs]
    assert types == [ir.DataType.INT8, ir.DataType.INT32, ir.DataType.INT32, ir.DataType.FLOAT]


def test_attributes_have_the_types_that_the_compiler_reads():
    exported = export(linear(normal(6, 5), None, "Gemm"), {"x": (-1.0, 3.0)})
    proto = onnx.ModelProto.FromString(model_bytes(exported.deploy))
    nodes = {node.op_type: node for node in proto.graph.node}
    quant = {a.name: a for a in nodes["AscendQuant"].attribute}
    assert {name: a.type for name, a in quant.items()} == {
        "scale": onnx.AttributeProto.FLOAT,
        "offset": onnx.AttributeProto.FLOAT,
        "dst_type": onnx.AttributeProto.STRING,
    }
    scale_d = np.float32(3.0 / 255 + 1.0 / 255)
    assert quant["scale"].f == np.float32(1) / scale_d
    assert quant["offset"].f == -64.0 and quant["dst_type"].s == b"INT8"
    (dtype,) = nodes["AscendDequant"].attribute
    assert (dtype.name, dtype.type, dtype.i) == ("dtype", onnx.AttributeProto.INT, 0)


@pytest.mark.parametrize("granularity", ["per-channel", "per-tensor"])
@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
def test_constants_are_those_of_the_dialect(kind, granularity):
    w, b = normal(6, 5), normal(5)
    exported = export(linear(w, b, kind), {"x": (-1.0, 3.0)}, granularity=granularity)
    graph = exported.deploy
    entry = exported.factors_of("l")
    scale_w = np.array(entry.scale_w)
    assert len(scale_w) == (5 if granularity == "per-channel" else 1)
    product = node_of(graph, kind)
    w8 = array_of(graph, product.inputs[1])
    assert w8.dtype == np.int8 and np.array_equal(w8, np.rint(w / scale_w.astype(np.float32)))
    bias = array_of(graph, product.inputs[2] if kind == "Gemm" else node_of(graph, "Add").inputs[1])
    assert bias.dtype == np.int32
    assert np.array_equal(bias, np.round(b.astype(np.float64) / (entry.scale_d * scale_w)))
    packed = array_of(graph, node_of(graph, "AscendDequant").inputs[1])
    assert packed.dtype == np.uint64 and packed.shape == scale_w.shape
    assert (packed >> np.uint64(32) == 0).all()
    scales = packed.astype(np.uint32).view(np.float32)
    assert np.array_equal(scales, np.float32(entry.scale_d) * scale_w.astype(np.float32))
    assert set(graph.graph.initializers).isdisjoint({"w", "b"})


def test_packing_keeps_every_bit_of_the_scale():
    scales = np.array([1.0, 0.1, 1e-30, 3.4e38], np.float32)
    assert pack_deq_scale(np.array([1.0], np.float32))[0] == 0x3F800000
    assert np.array_equal(unpack_deq_scale(pack_deq_scale(scales)), scales)


def test_layers_of_a_group_share_one_quant_and_float_readers_keep_the_float_tensor():
    exported = export(block(), BOUNDS)
    nodes = {node.name: node for node in exported.deploy.graph}
    quants = [node for node in nodes.values() if node.op_type == "AscendQuant"]
    assert len(quants) == 2 and boundaries(exported.deploy) == 2 + 3
    assert nodes["first"].inputs[0] is nodes["second"].inputs[0] is quants[0].outputs[0]
    assert [value.name for value in nodes["residual"].inputs] == ["s", "x"]
    assert [value.name for value in nodes["sum"].inputs] == ["h0", "h1"]
    assert nodes["first_bias"].inputs[0] is nodes["first"].outputs[0]
    assert [value.name for value in exported.deploy.graph.outputs] == ["y", "h0"]


def test_nodes_are_in_topological_order_with_unique_names():
    deploy = reload(export(block(), BOUNDS).deploy)
    seen = {v.name for v in deploy.graph.inputs} | set(deploy.graph.initializers)
    for node in deploy.graph:
        assert {value.name for value in node.inputs if value} <= seen
        assert not {value.name for value in node.outputs} & seen
        seen |= {value.name for value in node.outputs}
    names = [node.name for node in deploy.graph]
    assert len(set(names)) == len(names) and all(names)


def test_the_linter_of_the_target_finds_nothing():
    assert lint(export(block(), BOUNDS).deploy, "2026") == []


def test_the_float_model_is_not_changed():
    model = block()
    before = model_bytes(model)
    exported = export(model, BOUNDS)
    assert model_bytes(model) == before
    deploy = model_bytes(exported.deploy)
    assert model_bytes(deploy_model(model, exported.record, exported.factors)) == deploy


@pytest.mark.parametrize("name", ["l/bias_int32", "l/AscendQuant", "l/int32", "l/deq_scale",
                                  "l/weight_int8", "l/AscendQuant/int8"])  # fmt: skip
def test_names_that_exist_already_are_left_to_their_owners(name):
    # C18
    w, b = normal(4, 3), normal(3)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="l"),
        helper.make_node("Add", ["p", "b"], ["q"], name="l_bias"),
        helper.make_node("Mul", ["q", name], ["y"], name="scaled"),
    ]
    factor = np.array([2, 3, 4], np.float32)
    model = onnx_model(nodes, {"x": [2, 4]}, ["y"], {"w": w, "b": b, name: factor})
    exported = export(model, {"x": (-1.0, 1.0)})
    assert np.array_equal(array_of(exported.deploy, name), factor)
    names = [v.name for n in exported.deploy.graph for v in n.outputs]
    names += list(exported.deploy.graph.initializers)
    assert len(set(names)) == len(names)
    x = RNG.uniform(-1, 1, (2, 4)).astype(np.float32)
    expected = run_deployed_linear(export(linear(w, b, "MatMul", 2), {"x": (-1, 1)}).deploy, x,
                                   fp19=False)  # fmt: skip
    assert np.allclose(run(exported.qdq, {"x": x})["y"], expected * factor, rtol=1e-4, atol=1e-5)


def test_two_layers_with_one_bias_each_get_their_own():
    w0, w1, b = normal(4, 4), normal(4, 4), normal(4)
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b"], ["h"], name="a"),
        helper.make_node("Gemm", ["h", "w1", "b"], ["y"], name="b0"),
    ]
    model = onnx_model(nodes, {"x": [2, 4]}, ["y"], {"w0": w0, "w1": w1, "b": b})
    exported = export(model, {"x": (-1.0, 1.0), "h": (-5.0, 5.0)})
    nodes = {node.name: node for node in exported.deploy.graph}
    for name in ("a", "b0"):
        entry = exported.factors_of(name)
        bias = array_of(exported.deploy, nodes[name].inputs[2])
        assert np.array_equal(bias, np.rint(b / (entry.scale_d * np.array(entry.scale_w))))


def shared_weight():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="int8_layer"),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "w"], ["y"], name="fp16_layer"),
    ]
    return onnx_model(nodes, {"x": [2, 4]}, ["h", "y"], {"w": normal(4, 4)})


def test_a_weight_shared_with_an_fp16_layer_stays_float_for_it():
    # C19
    model = shared_weight()
    exported = export(model, {"x": (-1.0, 1.0), "r": (0.0, 4.0)}, fp16=["fp16_layer"])
    nodes = {node.name: node for node in exported.deploy.graph}
    float_weight = array_of(exported.deploy, nodes["fp16_layer"].inputs[1])
    assert nodes["fp16_layer"].inputs[1].name == "w"
    assert np.array_equal(float_weight, model.graph.initializers["w"].const_value.numpy())
    assert array_of(exported.deploy, nodes["int8_layer"].inputs[1]).dtype == np.int8
    # No quantized value reaches it: its input is exact where the int8 layer's output is given.
    x = RNG.uniform(-1, 1, (2, 4)).astype(np.float32)
    got = run(exported.qdq, {"x": x})
    expected = np.maximum(got["h"], 0) @ float_weight
    assert np.allclose(got["y"], expected, rtol=1e-6)


def test_a_weight_shared_by_two_int8_layers_is_stored_once():
    exported = export(shared_weight(), {"x": (-1.0, 1.0), "r": (0.0, 4.0)})
    stored = [v for v in exported.deploy.graph.initializers.values() if v.dtype == ir.DataType.INT8]
    assert sum(value.shape == [4, 4] for value in stored) == 1
    assert "w" not in exported.deploy.graph.initializers
    assert "w" not in exported.qdq.graph.initializers


def test_models_that_share_an_int8_weight_load_in_onnxruntime():
    # With session.x64quantprecision, 1.x refuses "to replace the existing tensor".
    exported = export(shared_weight(), {"x": (-1.0, 1.0), "r": (0.0, 4.0)})
    lowered = lower(exported.deploy, fp19=False, emulate_fp16=False, islands=frozenset())
    feeds = {"x": RNG.uniform(-1, 1, (2, 4)).astype(np.float32)}
    results = [
        OnnxRuntimeRunner(model_bytes(model)).run(feeds) for model in (lowered, exported.qdq)
    ]
    assert np.allclose(results[0]["y"], results[1]["y"], atol=0.1)


def test_a_tied_embedding_keeps_the_float_table():
    table = normal(5, 5)
    nodes = [
        helper.make_node("Cast", ["x"], ["ids"], name="cast", to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "ids"], ["e"], name="embedding"),
        helper.make_node("MatMul", ["e", "table"], ["y"], name="head"),
    ]
    model = onnx_model(nodes, {"x": [3]}, ["y"], {"table": table})
    exported = export(model, {"e": (-3.0, 3.0)})
    nodes = {node.name: node for node in exported.deploy.graph}
    assert np.array_equal(array_of(exported.deploy, nodes["embedding"].inputs[0]), table)
    assert array_of(exported.deploy, nodes["head"].inputs[1]).dtype == np.int8


def test_both_layouts_of_a_gemm_and_a_matmul_give_the_same_small_error():
    # C16
    w, b = normal(16, 6), normal(6)
    w[:, 0] *= 100
    x = RNG.uniform(-2, 2, (8, 16)).astype(np.float32)
    results = []
    for kind, transposed in (("MatMul", 0), ("Gemm", 0), ("Gemm", 1)):
        if transposed:
            node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="l", transB=1)
            constants = {"w": np.ascontiguousarray(w.T), "b": b}
            model = onnx_model([node], {"x": [8, 16]}, ["y"], constants)
            normalize_gemm(model)
        else:
            model = linear(w, b, kind, rows=8)
        deploy = export(model, {"x": (-2.0, 2.0)}).deploy
        results.append(run_deployed_linear(deploy, x, fp19=False))
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])
    exact = x.astype(np.float64) @ w + b
    relative = np.linalg.norm(results[0] - exact, axis=0) / np.linalg.norm(exact, axis=0)
    assert (relative < 0.02).all()
    # On the wrong axis, or with one scale, the small channels drown.
    single = export(linear(w, b, "MatMul", 8), {"x": (-2, 2)}, granularity="per-tensor").deploy
    drowned = run_deployed_linear(single, x, fp19=False)
    assert np.linalg.norm((drowned - exact)[:, 1:]) > 5 * np.linalg.norm(
        (results[0] - exact)[:, 1:]
    )


def test_a_graph_that_is_not_the_records_is_refused_by_layer():
    exported = export(block(), BOUNDS)
    other = copy_model(exported.model)
    node = next(n for n in other.graph if n.name == "second")
    node.replace_input_with(1, other.graph.initializers["w0"])
    with pytest.raises(QuantflowError, match=r"QF543(.|\n)*second"):
        deploy_model(other, exported.record, exported.factors)
