"""Additions with their constant second, as the layers' biases are described."""

from __future__ import annotations

import onnx_ir as ir

from quantflow.graph.edit import constant


def order_addition(model: ir.Model) -> int:
    """Swap the operands of every Add whose first operand alone is constant."""
    changed = 0
    for node in model.graph:
        if node.op_type != "Add":
            continue
        left, right = node.inputs
        if constant(left) is not None and constant(right) is None:
            node.replace_input_with(0, right)
            node.replace_input_with(1, left)
            changed += 1
    return changed
