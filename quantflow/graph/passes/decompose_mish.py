"""Mish (opset 18) in elementary operators, for targets whose opset ends before it."""

from __future__ import annotations

import onnx_ir as ir

from quantflow.graph.edit import replace_node


def decompose_mish(model: ir.Model) -> int:
    """Rewrite Mish as ``x tanh(softplus(x))`` (ONNX Mish-18)."""
    nodes = [node for node in model.graph.all_nodes() if node.op_type == "Mish"]
    for node in nodes:
        tape = ir.tape.Tape()
        x = node.inputs[0]
        gate = tape.op("Tanh", [tape.op("Softplus", [x])])
        replace_node(node, tape, tape.op("Mul", [x, gate]))
    return len(nodes)
