"""Swish (opset 24) in elementary operators, since the op table has none."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import replace_node


def decompose_swish(model: ir.Model) -> int:
    """Rewrite Swish as ``x sigmoid(alpha x)`` (ONNX Swish-24)."""
    nodes = [node for node in model.graph.all_nodes() if node.op_type == "Swish"]
    for node in nodes:
        tape = ir.tape.Tape()
        x, alpha = node.inputs[0], node.attributes.get_float("alpha", 1.0)
        inner = x
        if alpha != 1.0:
            factor = ir.tensor(np.float32(alpha))
            inner = tape.op("Mul", [x, tape.initializer(factor, name=f"{node.name}/alpha")])
        replace_node(node, tape, tape.op("Mul", [x, tape.op("Sigmoid", [inner])]))
    return len(nodes)
