"""Gemm with a constant weight; the canonical form has folded its transposes, alpha and beta."""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from quantflow.graph.edit import constant
from quantflow.graph.kinds.kind import LayerKind, Operands


def is_plain(node: ir.Node) -> bool:
    """Whether a Gemm scales and transposes nothing."""
    scaled = any(node.attributes.get_float(name, 1.0) != 1.0 for name in ("alpha", "beta"))
    return not scaled and not any(node.attributes.get_int(x, 0) for x in ("transA", "transB"))


def _matches(node: ir.Node) -> bool:
    return constant(node.inputs[1]) is not None


def _operands(node: ir.Node) -> Operands:
    activation, weight = node.inputs[:2]
    assert activation is not None
    bias = (*node.inputs, None)[2]
    bias = bias if constant(bias) is not None else None
    return Operands(activation, weight, None, bias, node.outputs[0])


def _float_reason(node: ir.Node) -> str:
    weight = constant(node.inputs[1])
    if weight is None or weight.shape.rank() != 2:
        return "the weight is not 2-D"
    if not is_plain(node):
        return "the Gemm's alpha or beta scales a value that is not constant"
    bias = (*node.inputs, None)[2]
    vector = constant(bias)
    if bias is not None and (vector is None or vector.shape.rank() != 1):
        return "the Gemm's bias is not a 1-D constant"
    return ""


def _macs(node: ir.Node) -> int:
    weight, shape = constant(node.inputs[1]), node.outputs[0].shape
    if weight is None or shape is None or not shape.is_static():
        return 0
    return prod(shape.numpy()) * weight.shape.numpy()[0]


GEMM = LayerKind("Gemm", _matches, _operands, _float_reason, _macs, channel_axis=-1)
