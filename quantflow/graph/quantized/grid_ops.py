"""Operators that put out only values that they read, or zero.

What they read was on a quantization grid, so what they put out is too: a layer behind them reads
the very integers that the file has there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import constant

_FIRST_INPUT = {
    "Identity", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Split",
    "Gather", "GatherElements", "GatherND", "Expand", "Tile", "DepthToSpace", "SpaceToDepth",
    "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Dropout", "Relu",
}  # fmt: skip


def grid_inputs(node: ir.Node) -> Sequence[ir.Value] | None:
    """The inputs whose values a node passes on, or None where it computes others."""
    if node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "Concat":
        return [value for value in node.inputs if value is not None]
    if node.op_type in _FIRST_INPUT or (node.op_type == "Pad" and _pads_with_zero(node)):
        return [value for value in node.inputs[:1] if value is not None]
    return None


def _pads_with_zero(node: ir.Node) -> bool:
    if node.attributes.get_string("mode", "constant") != "constant":
        return True  # a reflection or a copy of the edge
    fill = (*node.inputs, None, None, None)[2]
    tensor = constant(fill)
    if fill is not None:
        return tensor is not None and not np.asarray(tensor.numpy()).any()
    return node.attributes.get_float("value", 0.0) == 0.0
