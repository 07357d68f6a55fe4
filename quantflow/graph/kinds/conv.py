"""Conv with a constant weight ``(N, C / groups, ...)``: 1-D, 2-D, 3-D, grouped and depthwise."""

from __future__ import annotations

from math import prod
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.graph.edit import constant
from quantflow.graph.kinds.kind import LayerKind, Operands, WeightLayout
from quantflow.graph.window import window_of


def matches(node: ir.Node) -> bool:
    """Whether the weight is constant."""
    return constant(node.inputs[1]) is not None


def operands(node: ir.Node) -> Operands:
    """Activation, weight and the bias that is an input of the node."""
    activation, weight = node.inputs[:2]
    assert activation is not None
    bias = (*node.inputs, None)[2]
    bias = bias if constant(bias) is not None else None
    return Operands(activation, weight, None, bias, node.outputs[0])


def common_reason(node: ir.Node) -> str:
    """What keeps a convolution of either direction in float."""
    bias = (*node.inputs, None)[2]
    if bias is not None and constant(bias) is None:
        return f"the {node.op_type}'s bias is not constant"
    if window_of(node) is None:
        return "its auto_pad or output_shape cannot be written as pads"
    return ""


def _float_reason(node: ir.Node) -> str:
    weight = constant(node.inputs[1])
    if weight is None or not 3 <= weight.shape.rank() <= 5:
        return "the Conv is not 1-D, 2-D or 3-D"
    return common_reason(node)


def _macs(node: ir.Node) -> int:
    """Output elements times the kernel and channels that make each of them."""
    weight, shape = constant(node.inputs[1]), node.outputs[0].shape
    if weight is None or shape is None or not shape.is_static():
        return 0
    return prod(shape.numpy()) * prod(weight.shape.numpy()[1:])


def _to_matrix(weight: NDArray[Any], _: int) -> NDArray[Any]:
    return weight.reshape(len(weight), -1).T


def _from_matrix(matrix: NDArray[Any], shape: tuple[int, ...], _: int) -> NDArray[Any]:
    return matrix.T.reshape(shape)


CONV = LayerKind("Conv", matches, operands, _float_reason, _macs, channel_axis=1, spatial=True)
CONV_LAYOUT = WeightLayout(_to_matrix, _from_matrix)
