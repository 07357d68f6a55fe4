"""Resize over all axes, as before opset 18, where the resized ones could not be named."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import constant, fresh_name

_AXES = "axes"


def resize_axes(model: ir.Model) -> int:
    """Give every Resize that names its axes scales or sizes for all of them.

    Nodes whose scales, sizes or regions are computed, or whose sizes meet an axis of unknown size,
    are left alone.
    """
    nodes = [
        node
        for node in model.graph.all_nodes()
        if node.op_type == "Resize" and _AXES in node.attributes
    ]
    return sum(_resize(node) for node in nodes)


def _resize(node: ir.Node) -> int:
    x = node.inputs[0]
    if x is None or x.shape is None:
        return 0
    full = dict[int, np.ndarray]()
    for index, value in enumerate(node.inputs[1:], 1):
        if value is None:
            continue
        tensor = constant(value)
        array = _over_all(index, tensor.numpy(), node, x.shape) if tensor is not None else None
        if array is None:
            return 0
        full[index] = array
    for index, array in full.items():
        _set_input(node, index, array)
    del node.attributes[_AXES]
    return 1


def _over_all(index: int, given: np.ndarray, node: ir.Node, shape: ir.Shape) -> np.ndarray | None:
    """A region (input 1), scales (2) or sizes (3) for all axes; None where they cannot be told."""
    rank = shape.rank()
    axes = [axis % rank for axis in node.attributes.get_ints(_AXES, ())]
    entries: list[float | None] = [1.0] * rank
    if index == 1:  # starts, then ends
        entries = [*[0.0] * rank, *entries]
        axes += [axis + rank for axis in axes]
    elif index == 3:
        entries = [dim if isinstance(dim, int) else None for dim in shape]
    if given.size == 0:
        return given
    if given.size != len(axes):
        return None
    for place, number in zip(axes, given.tolist(), strict=True):
        entries[place] = number
    return None if None in entries else np.array(entries, given.dtype)


def _set_input(node: ir.Node, index: int, array: np.ndarray) -> None:
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    name = fresh_name(f"{node.name}/{('roi', 'scales', 'sizes')[index - 1]}", graph.initializers)
    value = ir.val(name, const_value=ir.tensor(array, name=name))
    graph.register_initializer(value)
    node.replace_input_with(index, value)
