"""MatMul of two variables, as in attention: symmetric only, of use on few chips, off by default.

Its multiply-accumulates count as none, for shares of INT8 work are shares of layers with weights.
"""

from __future__ import annotations

import onnx_ir as ir

from quantflow.graph.edit import constant
from quantflow.graph.kinds.kind import LayerKind, Operands


def _matches(node: ir.Node) -> bool:
    return all(value is not None and constant(value) is None for value in node.inputs[:2])


def _operands(node: ir.Node) -> Operands:
    left, right = node.inputs[:2]
    assert left is not None and right is not None
    return Operands(left, None, right, None, node.outputs[0])


def _float_reason(node: ir.Node) -> str:
    ranks = [v.shape.rank() if v is not None and v.shape is not None else 0 for v in node.inputs]
    if min(ranks) < 2:
        return "an operand of the MatMul has fewer than two axes"
    return ""


def _macs(_: ir.Node) -> int:
    return 0


MATMUL_PAIR = LayerKind(
    "MatMul", _matches, _operands, _float_reason, _macs, channel_axis=-1, option="MatMul"
)
