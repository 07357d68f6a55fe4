"""Gelu (opset 20) in elementary operators, since the op table has none."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import replace_node


def decompose_gelu(model: ir.Model) -> int:
    """Rewrite Gelu as ``x/2 (1 + erf(x / sqrt 2))``, or by tanh where the node asks for it.

    The tanh form is ``x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`` (ONNX Gelu-20).
    """
    nodes = [node for node in model.graph.all_nodes() if node.op_type == "Gelu"]
    for node in nodes:
        tape = ir.tape.Tape()
        x = node.inputs[0]

        def scalar(value: float, name: str, node: ir.Node = node, tape: ir.tape.Tape = tape):
            return tape.initializer(ir.tensor(np.float32(value)), name=f"{node.name}/{name}")

        if node.attributes.get_string("approximate", "none") == "tanh":
            cube = tape.op("Mul", [tape.op("Mul", [x, x]), x])
            inner = tape.op("Add", [x, tape.op("Mul", [cube, scalar(0.044715, "cubic")])])
            gate = tape.op("Tanh", [tape.op("Mul", [inner, scalar(math.sqrt(2 / math.pi), "k")])])
        else:
            gate = tape.op("Erf", [tape.op("Div", [x, scalar(math.sqrt(2), "sqrt2")])])
        gate = tape.op("Add", [gate, scalar(1.0, "one")])
        half = tape.op("Mul", [x, scalar(0.5, "half")])
        replace_node(node, tape, tape.op("Mul", [half, gate]))
    return len(nodes)
