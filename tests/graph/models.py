"""Small ONNX graphs written as text, and running them with onnxruntime as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import helper, numpy_helper

from quantflow.graph.canonical import canonicalize
from quantflow.graph.model_io import model_bytes

Arrays = Mapping[str, np.ndarray]


def rand(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Normal float32 values."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def build(
    text: str, weights: Arrays | None = None, *, opset: int = 18, named: bool = True, **imports: int
) -> onnx.ModelProto:
    """A model from onnx's text form of a graph; nodes are called after their first output."""
    graph = onnx.parser.parse_graph(f"g {text}")
    for name, array in (weights or {}).items():
        graph.initializer.append(numpy_helper.from_array(array, name))
    if named:
        for node in graph.node:
            node.name = f"n_{node.output[0]}"
    domains = [helper.make_opsetid("", opset)]
    domains += [helper.make_opsetid(name, version) for name, version in imports.items()]
    return helper.make_model(graph, opset_imports=domains, ir_version=9)


def run(model: onnx.ModelProto | ir.Model, feeds: Arrays) -> dict[str, np.ndarray]:
    """Run a model exactly as written."""
    data = model_bytes(model) if isinstance(model, ir.Model) else model.SerializeToString()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def canonical(
    model: onnx.ModelProto, cann: Literal["2026", "8.0"] = "2026"
) -> tuple[ir.Model, list[str]]:
    """The canonical form of a copy of `model`, and the notes."""
    result = ir.from_proto(onnx.ModelProto.FromString(model.SerializeToString()))
    notes = canonicalize(result, cann)
    return result, notes


def check_same(
    model: onnx.ModelProto,
    feeds: Arrays,
    *,
    cann: Literal["2026", "8.0"] = "2026",
    tolerance: float = 1e-6,
) -> ir.Model:
    """The canonical form, once it is seen to be one and to compute what the original computes."""
    result, _ = canonical(model, cann)
    assert_canonical(result, 18 if cann == "2026" else 16)
    assert_close(run(result, feeds), run(model, feeds), tolerance)
    return result


def assert_close(found: Arrays, expected: Arrays, tolerance: float = 1e-6) -> None:
    """Same outputs in the same order, to a tolerance relative to the largest value."""
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape, name
        scale = max(1.0, float(np.abs(array.astype(np.float64)).max(initial=0)))
        assert np.allclose(found[name], array, rtol=0, atol=tolerance * scale, equal_nan=True), name


def assert_canonical(model: ir.Model, ceiling: int) -> None:
    """The form that the other packages rely on."""
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    assert [entry.domain for entry in proto.opset_import] == [""]
    assert proto.opset_import[0].version <= ceiling
    assert not proto.functions
    nodes = list(all_nodes(proto.graph))
    names = [node.name for node in nodes]
    assert all(names) and len(set(names)) == len(names), names
    values = [name for node in proto.graph.node for name in node.output if name]
    values += [value.name for value in proto.graph.input]
    values += [tensor.name for tensor in proto.graph.initializer]
    assert len(set(values)) == len(values)
    assert not any(node.op_type in ("Constant", "Identity") for node in proto.graph.node if
                   node.output[0] not in {value.name for value in proto.graph.output})  # fmt: skip
    for node in proto.graph.node:
        if node.op_type == "Gemm":
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            constants = {tensor.name for tensor in proto.graph.initializer}
            scales = attributes == {"beta": attributes.get("beta")}
            variable = node.input[1] not in constants or (scales and node.input[2] not in constants)
            assert variable or not attributes


def all_nodes(graph: onnx.GraphProto) -> Sequence[onnx.NodeProto]:
    """Nodes of a graph and of the graphs inside it."""
    found = list[onnx.NodeProto]()
    for node in graph.node:
        found.append(node)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += all_nodes(attribute.g)
    return found


def ops(model: ir.Model) -> list[str]:
    """Op types in graph order."""
    return [node.op_type for node in model.graph]


def nodes_of(model: ir.Model, op_type: str) -> list[ir.Node]:
    """Nodes of one type, in graph order."""
    return [node for node in model.graph if node.op_type == op_type]


def attribute(node: ir.Node, name: str) -> Any:
    """Value of an attribute, or None."""
    return node.attributes[name].value if name in node.attributes else None
