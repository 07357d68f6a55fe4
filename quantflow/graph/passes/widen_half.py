"""Half precision inside a model, as float32: what a target computes in is decided later.

float16 and bfloat16 weights become the same numbers in float32, and nothing in between is rounded
any more. Inputs and outputs of the model keep their types: a Cast stands behind and before them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.weight_file import array_of, derived
from quantflow.graph.edit import all_values

HALF: Final = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})

_TYPE_ATTRIBUTES: Final = ("to", "dtype", "output_dtype")


def widen_half(model: ir.Model) -> int:
    """Make a model compute in float32; returns the number of values that were in half precision."""
    graphs = list(model.graphs())
    values = [value for graph in graphs for value in all_values(graph) if value.dtype in HALF]
    ends = (*model.graph.inputs, *model.graph.outputs)
    boundary = {value: value.dtype for value in ends if value.dtype is not None}
    for value in values:
        if value.const_value is not None:
            value.const_value = _widened(value.const_value)
        value.type = ir.TensorType(ir.DataType.FLOAT)
    changed = len(values)
    for node in model.graph.all_nodes():
        changed += _widen_attributes(node)
    for value, dtype in boundary.items():
        if dtype in HALF and value.is_graph_input():
            value.type = ir.TensorType(dtype)
            _cast_input(model.graph, value)
    for index, value in enumerate(list(model.graph.outputs)):
        dtype = boundary.get(value)
        if dtype in HALF and dtype is not None and not value.is_graph_input():
            model.graph.outputs[index] = _cast_output(model.graph, value, dtype)
    return changed


def _widened(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    def widened() -> NDArray[np.float32]:
        return array_of(tensor).astype(np.float32)

    return derived(tensor.name or "", widened, ir.DataType.FLOAT, tensor.shape.numpy())


def _widen_attributes(node: ir.Node) -> int:
    """Types that a node names, and a tensor that it holds."""
    changed = 0
    for name in _TYPE_ATTRIBUTES:
        if node.attributes.get_int(name, 0) in {dtype.value for dtype in HALF}:
            node.attributes[name] = ir.AttrInt64(name, ir.DataType.FLOAT.value)
            changed += 1
    for name, attribute in list(node.attributes.items()):
        if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
            tensor = attribute.as_tensor()
            if tensor.dtype in HALF:
                array: NDArray[Any] = array_of(tensor).astype(np.float32)
                node.attributes[name] = ir.AttrTensor(name, ir.tensor(array))
                changed += 1
    return changed


def _cast_input(graph: ir.Graph, value: ir.Value) -> None:
    readers = list(value.uses())
    if not readers:
        return
    cast = ir.node("Cast", [value], {"to": ir.DataType.FLOAT.value}, name=f"{value.name}/Cast")
    wide = cast.outputs[0]
    wide.name = f"{value.name}/float32"
    wide.type, wide.shape = ir.TensorType(ir.DataType.FLOAT), value.shape
    graph.insert_before(graph[0], cast)
    for use in readers:
        use.node.replace_input_with(use.idx, wide)


def _cast_output(graph: ir.Graph, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    cast = ir.node("Cast", [value], {"to": dtype.value}, name=f"{value.name}/Cast")
    narrow = cast.outputs[0]
    narrow.name, value.name = value.name, f"{value.name}/float32"
    narrow.type, narrow.shape = ir.TensorType(dtype), value.shape
    graph.append(cast)
    return narrow
