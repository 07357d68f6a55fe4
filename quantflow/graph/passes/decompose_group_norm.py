"""GroupNormalization by InstanceNormalization, since the op table has none.

InstanceNormalization squares inside one kernel; means of squares in nodes of their own would leave
fp16 where the values are large.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import opset, replace_node

_SCALE_PER_CHANNEL = 21
"""From this opset on, scale and bias have one entry a channel; before, one a group."""


def decompose_group_norm(model: ir.Model) -> int:
    """Rewrite GroupNormalization: fold each group into a channel, normalise, unfold.

    Nodes whose rank is not known are left alone.
    """
    nodes = [node for node in model.graph.all_nodes() if node.op_type == "GroupNormalization"]
    nodes = [node for node in nodes if node.inputs[0] is not None and node.inputs[0].shape]
    for node in nodes:
        _decompose(node, per_channel=opset(model) >= _SCALE_PER_CHANNEL)
    return len(nodes)


def _decompose(node: ir.Node, *, per_channel: bool) -> None:
    x, scale, bias = node.inputs[0], node.inputs[1], node.inputs[2]
    assert x is not None and x.shape is not None
    groups = node.attributes.get_int("num_groups", 1)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    tape = ir.tape.Tape()

    def add(name: str, array: np.ndarray) -> ir.Value:
        return tape.initializer(ir.tensor(array), name=f"{node.name}/{name}")

    folded = tape.op("Reshape", [x, add("folded", np.array([0, groups, -1], np.int64))])
    one, zero = scale, bias
    if per_channel:
        one, zero = add("one", np.ones(groups, np.float32)), add("zero", np.zeros(groups, "f4"))
    normal = tape.op("InstanceNormalization", [folded, one, zero], {"epsilon": epsilon})
    result = tape.op("Reshape", [normal, tape.op("Shape", [x])])
    if per_channel:
        column = add("column", np.array([-1] + [1] * (x.shape.rank() - 2), np.int64))
        result = tape.op("Mul", [result, tape.op("Reshape", [scale, column])])
        result = tape.op("Add", [result, tape.op("Reshape", [bias, column])])
    replace_node(node, tape, result)
