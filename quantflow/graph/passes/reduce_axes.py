"""Reduce operators with their axes as an attribute, as before opset 18."""

from __future__ import annotations

import onnx_ir as ir

from quantflow.graph.edit import constant

_REDUCTIONS = frozenset(
    f"Reduce{name}"
    for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
)
"""All but ReduceSum, which has read its axes from an input since opset 13."""

_NOOP = "noop_with_empty_axes"


def reduce_axes(model: ir.Model) -> int:
    """Turn constant axes into attributes; nodes whose axes are computed are left alone."""
    changed = 0
    for node in model.graph.all_nodes():
        if node.op_type in _REDUCTIONS:
            changed += _reduce(node)
    return changed


def _reduce(node: ir.Node) -> int:
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    tensor = constant(axes)
    empty = axes is None or (tensor is not None and tensor.size == 0)
    if (axes is not None and tensor is None) or (empty and node.attributes.get_int(_NOOP, 0)):
        return 0
    node.attributes.pop(_NOOP, None)
    if tensor is not None and not empty:
        node.attributes["axes"] = ir.AttrInt64s("axes", [int(x) for x in tensor.numpy().ravel()])
    changed = len(node.inputs) > 1
    node.resize_inputs(1)
    return int(changed)
