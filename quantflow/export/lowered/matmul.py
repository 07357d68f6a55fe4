"""MatMul and Gemm of int8 as MatMulInteger, which accumulates in int32."""

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
    if weight is not None and len(weight.uses()) > 1 and weight.const_value is not None:
        # A weight each: onnxruntime, making it uint8, does not load a model that shares one.
        own = additions.initializer(f"{node.name}/weight", weight.const_value.numpy())
        node.replace_input_with(1, own)
    if bias is not None:
        product = node.outputs[0]
        add = additions.node(
            f"{node.name}/bias", "Add", [product, bias], ir.DataType.INT32, like=product
        )
        insert_behind(node, [add])


def _zero_point(node: ir.Node, index: int, entry: DeployedInput, additions: Additions) -> ir.Value:
    name = f"{node.name}/zero_point" + ("_second" if index else "")
    return additions.initializer(name, np.array(entry.zero_point + SHIFT, np.uint8))
