"""MatMul and Gemm of int8 as MatMulInteger, which accumulates in int32.

Both operands are uint8: on processors without VNNI, onnxruntime adds pairs of u8 x s8 products in
16 bits, where they saturate, unless it is told otherwise and optimizes the graph.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.export.additions import Additions
from quantflow.export.deployed import DeployedInput, DeployedLayer
from quantflow.export.lowered.accumulator import insert_behind
from quantflow.export.lowered.inputs import SHIFT, LoweredInputs


def to_integer_matmul(layer: DeployedLayer, inputs: LoweredInputs, additions: Additions) -> None:
    """Turn the node, in place, into a MatMulInteger and the Add of a Gemm's bias."""
    node = layer.product
    bias = (*node.inputs, None)[2]
    node.op_type = "MatMulInteger"
    node.attributes.clear()
    node.resize_inputs(2 + len(layer.inputs))
    for index, entry in enumerate(layer.inputs):
        node.replace_input_with(index, inputs.shifted(entry))
        zero_point = _zero_point(node, index, entry, additions)
        node.replace_input_with(2 + index, zero_point)
    weight = node.inputs[1]
    if weight is not None and weight.const_value is not None:
        node.resize_inputs(4)
        node.replace_input_with(1, _shifted(node, weight, additions))
        zero_point = np.array(SHIFT, np.uint8)
        node.replace_input_with(
            3, additions.initializer(f"{node.name}/weight_zero_point", zero_point)
        )
    if bias is not None:
        product = node.outputs[0]
        add = additions.node(
            f"{node.name}/bias", "Add", [product, bias], ir.DataType.INT32, like=product
        )
        insert_behind(node, [add])


def _shifted(node: ir.Node, weight: ir.Value, additions: Additions) -> ir.Value:
    """The weight as uint8, in the place of an int8 one that nothing else reads."""
    assert weight.const_value is not None
    array = np.asarray(weight.const_value.numpy(), np.int8)
    shifted = (array.view(np.uint8) ^ np.uint8(SHIFT)).reshape(array.shape)
    own = additions.initializer(f"{node.name}/weight_uint8", shifted)
    graph = node.graph
    if isinstance(graph, ir.Graph) and len(list(weight.uses())) == 1 and weight.name:
        graph.initializers.pop(weight.name, None)
    return own


def _zero_point(node: ir.Node, index: int, entry: DeployedInput, additions: Additions) -> ir.Value:
    name = f"{node.name}/zero_point" + ("_second" if index else "")
    return additions.initializer(name, np.array(entry.zero_point + SHIFT, np.uint8))
