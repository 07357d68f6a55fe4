"""LayerNormalization in elementary operators, for targets whose opset ends before 17."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import replace_node


def decompose_layer_norm(model: ir.Model) -> int:
    """Rewrite ``LayerNormalization`` as ``(x - mean) / sqrt(mean((x - mean)^2) + eps) * w + b``.

    Only nodes that use the first output are rewritten; axes become inputs, as at opset 18.
    """
    nodes = [
        node
        for node in model.graph
        if node.op_type == "LayerNormalization" and not any(o.uses() for o in node.outputs[1:])
    ]
    for node in nodes:
        _decompose(node)
    return len(nodes)


def _decompose(node: ir.Node) -> None:
    x, weight, bias = node.inputs[0], node.inputs[1], (*node.inputs, None)[2]
    axis = node.attributes.get_int("axis", -1)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    assert x is not None
    rank = len(x.shape) if x.shape is not None else 0
    axes = np.arange(axis, 0) if axis < 0 else np.arange(axis, rank)
    tape = ir.tape.Tape()
    along = tape.initializer(ir.tensor(axes.astype(np.int64)), name=f"{node.name}/axes")
    small = tape.initializer(ir.tensor(np.float32(epsilon)), name=f"{node.name}/epsilon")
    mean = tape.op("ReduceMean", [x, along], {"keepdims": 1})
    centred = tape.op("Sub", [x, mean])
    square = tape.op("Mul", [centred, centred])
    variance = tape.op("ReduceMean", [square, along], {"keepdims": 1})
    deviation = tape.op("Sqrt", [tape.op("Add", [variance, small])])
    result = tape.op("Mul", [tape.op("Div", [centred, deviation]), weight])
    if bias is not None:
        result = tape.op("Add", [result, bias])
    node.resize_outputs(1)
    replace_node(node, tape, result)
