"""ReduceL1 and ReduceL2 as sums, since the op table ends before opset 18 for both."""

from __future__ import annotations

import onnx_ir as ir

from quantflow.graph.edit import replace_node


def decompose_reduce_norm(model: ir.Model) -> int:
    """Rewrite ReduceL1 as ``ReduceSum(|x|)`` and ReduceL2 as ``sqrt(ReduceSum(x x))``.

    The reduced axes stay the second input, as at opset 18, where alone the rewrite is needed.
    """
    nodes = [node for node in model.graph.all_nodes() if node.op_type in ("ReduceL1", "ReduceL2")]
    for node in nodes:
        tape = ir.tape.Tape()
        x = node.inputs[0]
        square = node.op_type == "ReduceL2"
        terms = tape.op("Mul", [x, x]) if square else tape.op("Abs", [x])
        result = tape.op("ReduceSum", [terms, *node.inputs[1:]], dict(node.attributes))
        replace_node(node, tape, tape.op("Sqrt", [result]) if square else result)
    return len(nodes)
