"""MatMul with a constant weight ``(K, N)``, and the Add of a bias behind it."""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from quantflow.graph.edit import constant
from quantflow.graph.kinds.kind import LayerKind, Operands


def _matches(node: ir.Node) -> bool:
    return any(constant(value) is not None for value in node.inputs[:2])


def _weight_is_left(node: ir.Node) -> bool:
    return constant(node.inputs[1]) is None


def _operands(node: ir.Node) -> Operands:
    left, right = node.inputs[:2]
    assert left is not None and right is not None
    weight, activation = (left, right) if _weight_is_left(node) else (right, left)
    bias, add = _bias_of(node)
    output = (add or node).outputs[0]
    return Operands(activation, weight, None, bias, output, add)


def _bias_of(node: ir.Node) -> tuple[ir.Value | None, ir.Node | None]:
    """A vector of one number an output channel that is added to a product nobody else reads."""
    product = node.outputs[0]
    uses = list(product.uses())
    if len(uses) != 1 or product.is_graph_output() or uses[0].node.op_type != "Add":
        return None, None
    add = uses[0].node
    other = add.inputs[1 - uses[0].idx]
    vector, weight = constant(other), constant(node.inputs[1])
    if vector is None or vector.shape.rank() != 1:
        return None, None
    if weight is None or weight.shape[-1] != vector.shape[0]:
        return None, None
    return other, add


def _float_reason(node: ir.Node) -> str:
    if _weight_is_left(node):
        return "the constant is the left operand of the MatMul, and INT8 weights are the right one"
    weight = constant(node.inputs[1])
    return "the weight is not 2-D" if weight is None or weight.shape.rank() != 2 else ""


def _macs(node: ir.Node) -> int:
    left, right = constant(node.inputs[0]), constant(node.inputs[1])
    weight = right if right is not None else left
    shape = node.outputs[0].shape
    if weight is None or shape is None or not shape.is_static():
        return 0
    dims = weight.shape.numpy()
    return prod(shape.numpy()) * (dims[-1] if right is None else dims[-2:][0])


MATMUL = LayerKind("MatMul", _matches, _operands, _float_reason, _macs, channel_axis=-1)
