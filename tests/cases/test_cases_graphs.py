# pyright: reportUnknownMemberType=false
"""Graphs as they come: shared and tied weights, branches, external data, names that clash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from quantflow.artifacts.export_record import ExportRecord
from quantflow.errors import QuantflowError
from quantflow.graph.edit import nodes_by_name
from quantflow.graph.model_io import load_model
from tests.cases.drawn import drawn
from tests.graph.models import build, rand, run
from tests.sensitivity.projects import read_model, run_until, write_project

NO_SEARCH = '[plan]\npolicy = "none"\n'
AS_IT_IS = """[optimize]
shift = false
smoothing = false
rounding = false
bias_correction = false
"""


def exported(directory: Path) -> tuple[ExportRecord, ir.Model, ir.Model]:
    """The record, the deploy model and the QDQ twin of stage 4."""
    folder = directory / "run" / "40_onnx"
    record = ExportRecord.read(folder / "export.json")
    (bucket,) = record.buckets
    onnx.checker.check_model(str(folder / bucket.qdq), full_check=True)
    return record, load_model(folder / bucket.deploy), load_model(folder / bucket.qdq)


def float_value(model: ir.Model, node: str, index: int) -> np.ndarray:
    """The constant that a node reads, which must be float32."""
    value = nodes_by_name(model)[node].inputs[index]
    assert value is not None and value.const_value is not None
    assert value.dtype == ir.DataType.FLOAT
    return value.const_value.numpy()


def named_values(model: ir.Model) -> list[str]:
    names = [str(value.name) for value in model.graph.inputs]
    names += [str(value.name) for node in model.graph.all_nodes() for value in node.outputs]
    return names + [name for name in model.graph.initializers if name not in names]


def decoder(table: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> onnx.ModelProto:
    """A tied embedding, and one weight and one bias for two layers, beside a tensor ``b0``."""
    return build(
        "(int64[batch,5] ids) => (float[batch,5,11] logits) { e = Gather(table, ids) "
        "m1 = MatMul(e, w) a1 = Add(m1, b) t1 = Tanh(a1) "
        "m2 = MatMul(t1, w) a2 = Add(m2, b) s2 = Mul(a2, b0) r2 = Relu(s2) "
        "tt = Transpose<perm=[1,0]>(table) logits = MatMul(r2, tt) }",
        {"table": table, "w": weight, "b": bias, "b0": rand(8, seed=9)},
        opset=17,
    )


def test_shared_bias_shared_weight_and_tied_embedding_in_one_model(tmp_path: Path) -> None:
    # C18 and C19, through all stages; the second reader of the weight stays in fp16.
    table, weight, bias = rand(11, 8), rand(8, 8, seed=1), rand(8, seed=2)
    model = decoder(table, weight, bias)
    ids = np.random.default_rng(0).integers(0, 11, (40, 5))
    pins = '[[plan.pins]]\npattern = "n_m2"\nprecision = "fp16"\n'
    config = write_project(tmp_path, model, {"ids": ids}, {"batch": 1}, AS_IT_IS + NO_SEARCH + pins)
    run_until("45_compare", config)
    record, deploy, twin = exported(tmp_path)
    assert {x.layer: x.precision for x in record.layers} == {
        "n_m1": "int8", "n_m2": "fp16", "n_logits": "int8",
    }  # fmt: skip
    for file in (deploy, twin):
        names = named_values(file)
        assert len(set(names)) == len(names)
        assert np.array_equal(float_value(file, "n_e", 0), table)
        assert np.array_equal(float_value(file, "n_m2", 1), weight)
        assert np.array_equal(float_value(file, "n_a2", 1), bias)
        assert np.array_equal(float_value(file, "n_s2", 1), rand(8, seed=9))
    # What the fp16 layer computes from the output of the INT8 one holds no quantized value.
    for name in ("t1", "a2"):
        value = next(v for node in twin.graph for v in node.outputs if v.name == name)
        twin.graph.outputs.append(value)
    found = run(twin, {"ids": ids[:1]})
    np.testing.assert_allclose(found["a2"], found["t1"] @ weight + bias, rtol=1e-5, atol=1e-6)


BRANCHES = """(float[batch,4] x) => (float[batch,4] y) {
    h = MatMul(x, w0) hb = Add(h, b0)
    s = ReduceSum<keepdims=0>(hb) c = Greater(s, zero)
    z = If (c) <
      then_branch = t () => (float[batch,4] t4) {
        t1 = MatMul(hb, w0) t2 = MatMul(x, w1) t3 = Add(t1, t2) t4 = Add(t3, b0) },
      else_branch = e () => (float[batch,4] e2) { e1 = MatMul(hb, w2) e2 = Relu(e1) }>
    y = MatMul(z, w3) }"""


def test_branches_that_share_weights_with_int8_layers_keep_the_float_ones(tmp_path: Path) -> None:
    # C21: the branches read x, w0 and b0, all of which the first layer quantizes.
    weights = {f"w{i}": rand(4, 4, seed=i) for i in range(4)}
    weights |= {"b0": rand(4, seed=4), "zero": np.zeros((), np.float32)}
    model = build(BRANCHES, weights, opset=17)
    for number, branch in enumerate(model.graph.node[4].attribute):
        for node in branch.g.node:
            node.name = f"branch{number}_{node.output[0]}"
    x = rand(40, 4, seed=5)
    config = write_project(tmp_path, model, {"x": x}, {"batch": 1}, NO_SEARCH)
    # The condition is one for a batch, so calibration has to see samples as they are served.
    run_until("45_compare", config, "runtime.batch=1")
    (note,) = [note for note in read_model(config).notes if "If node" in note]
    for name in ("n_z", "branch0_t1", "branch0_t2", "branch1_e1"):
        assert name in note, note
    record, deploy, twin = exported(tmp_path)
    assert {entry.layer: entry.precision for entry in record.layers} == {
        "n_h": "int8", "n_y": "int8",
    }  # fmt: skip
    place = "in a branch of the If node 'n_z'"
    assert [(x.node, x.op_type, x.reason) for x in record.float_nodes] == [
        (name, "MatMul", place) for name in ("branch0_t1", "branch0_t2", "branch1_e1")
    ]
    inner = [node for node in deploy.graph.all_nodes() if str(node.name).startswith("branch")]
    assert [node.op_type for node in inner].count("MatMul") == 3
    for node in inner:
        assert all(value is None or value.dtype == ir.DataType.FLOAT for value in node.inputs)
    taken = set[bool]()
    for number in drawn(tmp_path):
        feeds = {"x": x[number : number + 1]}
        hidden = feeds["x"] @ weights["w0"] + weights["b0"]
        if abs(hidden.sum()) > 0.5:
            taken.add(bool(hidden.sum() > 0))
            expected, found = run(model, feeds)["y"], run(twin, feeds)["y"]
            assert np.abs(found - expected).max() <= 0.1 * np.abs(expected).max()
    assert taken == {True, False}


def awkward(directory: Path) -> None:
    """Unnamed and equally named nodes, a weight in a Constant node, the others in a file."""
    weights = {"w0": rand(64, 64, scale=0.1), "w1": rand(64, 8, seed=1)}
    constant = helper.make_node("Constant", [], ["wc"], value=numpy_helper.from_array(
        rand(64, 64, seed=2, scale=0.1), "value"))  # fmt: skip
    nodes = [
        constant,
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"], name="twice"),
        helper.make_node("MatMul", ["b", "wc"], ["c"], name="twice"),
        helper.make_node("Tanh", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w1"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 8])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, directory / "model.onnx", save_as_external_data=True, size_threshold=1024)
    assert (directory / "model.onnx").stat().st_size < 40_000  # w0 lies elsewhere


@pytest.mark.parametrize(
    ("pattern", "pinned"), [("twice_1", {"twice_1"}), ("MatMul", {"MatMul"}), ("", None)]
)
def test_awkward_files_run_through_and_patterns_pin_what_they_name(
    tmp_path: Path, pattern: str, pinned: set[str] | None
) -> None:
    # C22: elsewhere, a filter '' excluded every unnamed node.
    x = {"x": rand(40, 64, seed=3)}
    placeholder = build("(float[b,1] x) => (float[b,1] y) { y = Relu(x) }")
    pins = f'[[plan.pins]]\npattern = "{pattern}"\nprecision = "fp16"\n'
    config = write_project(tmp_path, placeholder, x, {"batch": 1}, NO_SEARCH + pins)
    (tmp_path / "model.onnx").unlink()
    awkward(tmp_path)
    if pinned is None:
        with pytest.raises(QuantflowError, match="QF510"):
            run_until("40_onnx", config)
        return
    run_until("40_onnx", config)
    layers = read_model(config).layers
    assert [layer.name for layer in layers] == ["MatMul", "twice_1", "MatMul_1"]
    record, _, twin = exported(tmp_path)
    assert {entry.layer for entry in record.layers if entry.precision == "fp16"} == pinned
    feeds = {"x": x["x"][drawn(tmp_path)[:1]]}
    hidden = np.tanh(feeds["x"] @ rand(64, 64, scale=0.1))
    hidden = np.tanh(hidden @ rand(64, 64, seed=2, scale=0.1))
    expected = hidden @ rand(64, 8, seed=1)
    found = run(twin, feeds)["y"]
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
