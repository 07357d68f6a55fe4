"""Split with its sizes written out, as before opset 18, where their number was not enough."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import fresh_name

_COUNT = "num_outputs"


def split_sizes(model: ir.Model) -> int:
    """Write out the sizes of every Split that gives their number; the last may be smaller.

    Nodes that split an axis of unknown size are left alone.
    """
    nodes = [
        node
        for node in model.graph.all_nodes()
        if node.op_type == "Split" and _COUNT in node.attributes
    ]
    return sum(_split(node) for node in nodes)


def _split(node: ir.Node) -> int:
    x, count = node.inputs[0], node.attributes.get_int(_COUNT, 1)
    shape = x.shape if x is not None else None
    size = shape[node.attributes.get_int("axis", 0)] if shape is not None else None
    if not isinstance(size, int) or count < 1:
        return 0
    each = -(-size // count)
    sizes = np.minimum(each, size - each * np.arange(count)).astype(np.int64)
    if (sizes < 0).any():
        return 0
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    name = fresh_name(f"{node.name}/sizes", graph.initializers)
    value = ir.val(name, const_value=ir.tensor(sizes, name=name))
    graph.register_initializer(value)
    node.resize_inputs(2)
    node.replace_input_with(1, value)
    del node.attributes[_COUNT]
    return 1
