"""Pad over all axes, as before opset 18, where the padded ones could not be named."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import constant, fresh_name


def pad_axes(model: ir.Model) -> int:
    """Give every Pad that names its axes pads for all of them, zero for those not named.

    Nodes whose pads or axes are computed, or whose rank is unknown, are left alone.
    """
    changed = 0
    for node in model.graph.all_nodes():
        axes = node.inputs[3] if node.op_type == "Pad" and len(node.inputs) > 3 else None
        if axes is not None:
            changed += _pad(node, axes)
    return changed


def _pad(node: ir.Node, axes: ir.Value) -> int:
    x, named, given = node.inputs[0], constant(axes), constant(node.inputs[1])
    if x is None or x.shape is None or named is None or given is None:
        return 0
    rank = x.shape.rank()
    pads = np.zeros((2, rank), np.int64)
    pads[:, named.numpy().ravel() % rank] = given.numpy().reshape(2, -1)
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    name = fresh_name(f"{node.name}/pads", graph.initializers)
    value = ir.val(name, const_value=ir.tensor(pads.ravel(), name=name))
    graph.register_initializer(value)
    node.replace_input_with(1, value)
    node.resize_inputs(3 if node.inputs[2] is not None else 2)
    return 1
