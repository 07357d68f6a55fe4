"""AveragePool with a fixed divisor. Ascend's integer form of it is not verified: off by default.

Global pooling is another operator, and stays float.
"""

from __future__ import annotations

import onnx_ir as ir

from quantflow.graph.kinds.kind import LayerKind, Operands
from quantflow.graph.window import window_of


def _matches(_: ir.Node) -> bool:
    return True


def _operands(node: ir.Node) -> Operands:
    activation = node.inputs[0]
    assert activation is not None
    return Operands(activation, None, None, None, node.outputs[0])


def _float_reason(node: ir.Node) -> str:
    window = window_of(node)
    if window is None:
        return "its auto_pad or output_shape cannot be written as pads"
    if len(window.kernel) != 2:
        return "the AveragePool is not 2-D"
    if any(step != 1 for step in window.dilations):
        return "the AveragePool is dilated"
    if any(window.pads) and not node.attributes.get_int("count_include_pad", 0):
        return "the AveragePool divides by another number at the border"
    if node.attributes.get_int("ceil_mode", 0):
        return "the AveragePool rounds its output's size up"
    return ""


def _macs(_: ir.Node) -> int:
    return 0


AVERAGE_POOL = LayerKind(
    "AveragePool", _matches, _operands, _float_reason, _macs,
    channel_axis=1, spatial=True, option="AveragePool",
)  # fmt: skip
