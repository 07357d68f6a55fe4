"""LayerNormalization in elementary operators, for targets whose opset ends before 17."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import opset, replace_node


def decompose_layer_norm(model: ir.Model) -> int:
    """Rewrite ``LayerNormalization`` as ``(x - mean) / sqrt(mean((x - mean)^2) + eps) * w + b``.

    Its further outputs are the mean and the inverse of the standard deviation. Nodes whose axes
    cannot be told are left alone. The axes are an input of ReduceMean from opset 18 on, an
    attribute before.
    """
    nodes = [node for node in model.graph.all_nodes() if node.op_type == "LayerNormalization"]
    nodes = [node for node in nodes if _can_decompose(node)]
    for node in nodes:
        _decompose(node, axes_as_input=opset(model) >= 18)
    return len(nodes)


def _can_decompose(node: ir.Node) -> bool:
    return node.attributes.get_int("axis", -1) < 0 or bool(getattr(node.inputs[0], "shape", None))


def _decompose(node: ir.Node, *, axes_as_input: bool) -> None:
    x, weight, bias = node.inputs[0], node.inputs[1], (*node.inputs, None)[2]
    axis = node.attributes.get_int("axis", -1)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    assert x is not None
    rank = len(x.shape) if x.shape is not None else 0
    axes = np.arange(axis, 0) if axis < 0 else np.arange(axis, rank)
    tape = ir.tape.Tape()
    reduced: list[ir.Value] = []
    attributes = {"keepdims": 1, "axes": axes.tolist()}
    if axes_as_input:
        reduced = [tape.initializer(ir.tensor(axes.astype(np.int64)), name=f"{node.name}/axes")]
        del attributes["axes"]
    small = tape.initializer(ir.tensor(np.float32(epsilon)), name=f"{node.name}/epsilon")
    mean = tape.op("ReduceMean", [x, *reduced], attributes)
    centred = tape.op("Sub", [x, mean])
    square = tape.op("Mul", [centred, centred])
    variance = tape.op("ReduceMean", [square, *reduced], attributes)
    deviation = tape.op("Sqrt", [tape.op("Add", [variance, small])])
    result = tape.op("Mul", [tape.op("Div", [centred, deviation]), weight])
    if bias is not None:
        result = tape.op("Add", [result, bias])
    results = [result]
    if any(_is_read(output) for output in node.outputs[1:]):
        results += [mean, tape.op("Reciprocal", [deviation])][: len(node.outputs) - 1]
    node.resize_outputs(len(results))
    for output in node.outputs:
        output.name = output.name or None
    replace_node(node, tape, *results)


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()
