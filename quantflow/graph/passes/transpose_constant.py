"""Transposed weights as weights, however large: constant folding computes, and ends at a size."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.weight_file import array_of, derived
from quantflow.graph.edit import constant, fresh_name


def transpose_constant(model: ir.Model) -> int:
    """Replace every Transpose of an initializer by the transposed initializer.

    Whoever else reads the initializer, such as the Gather of a tied embedding, still does.
    """
    nodes = [node for node in model.graph if node.op_type == "Transpose"]
    nodes = [node for node in nodes if constant(node.inputs[0]) is not None]
    for node in nodes:
        _replace(model.graph, node)
    return len(nodes)


def _replace(graph: ir.Graph, node: ir.Node) -> None:
    tensor = constant(node.inputs[0])
    assert tensor is not None
    shape = tensor.shape.numpy()
    order = node.attributes.get_ints("perm", list(range(len(shape)))[::-1])

    def transposed() -> NDArray[Any]:
        return np.ascontiguousarray(array_of(tensor).transpose(order))

    name = fresh_name(f"{tensor.name}_transposed", graph.initializers)
    result = derived(name, transposed, tensor.dtype, [shape[axis] for axis in order])
    value = ir.val(name, const_value=result)
    graph.register_initializer(value)
    ir.convenience.replace_all_uses_with(node.outputs[0], value, replace_graph_outputs=True)
    graph.remove(node, safe=True)
