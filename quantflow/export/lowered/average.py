"""AveragePool of int8: the exact sum over the window, whose scale holds the division.

That Ascend sums first and divides in the dequantization is inferred, not read in its sources.
"""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.errors import fail
from quantflow.export.additions import Additions
from quantflow.export.deployed import DeployedLayer
from quantflow.export.lowered.accumulator import insert_behind
from quantflow.export.lowered.inputs import LoweredInputs
from quantflow.graph.window import kernel_of

_KEPT = ("kernel_shape", "strides", "pads", "auto_pad")


def average_to_sum(layer: DeployedLayer, inputs: LoweredInputs, additions: Additions) -> None:
    """Turn the node, in place, into a depthwise Conv with ones and a Cast to int32 behind it."""
    node, (entry,) = layer.product, layer.inputs
    value = node.inputs[0]
    channels = value.shape[1] if value is not None and value.shape is not None else None
    if not isinstance(channels, int):
        fail("QF544", "the channels of an int8 AveragePool are unknown", where=str(node.name))
    kernel = kernel_of(node)
    kept = {name: node.attributes[name] for name in _KEPT if name in node.attributes}
    node.op_type = "Conv"
    node.attributes.clear()
    node.attributes.update({**kept, "group": ir.AttrInt64("group", channels)})
    node.resize_inputs(2)
    node.replace_input_with(0, inputs.steps(entry))
    ones = np.ones((channels, 1, *kernel), np.float32)
    node.replace_input_with(1, additions.initializer(f"{node.name}/ones", ones))
    node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    cast = additions.node(
        f"{node.name}/Cast", "Cast", node.outputs, ir.DataType.INT32, like=node.outputs[0],
        attributes=[ir.AttrInt64("to", ir.DataType.INT32.value)],
    )  # fmt: skip
    insert_behind(node, [cast])


def sum_scale(node: ir.Node, scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """Units of the output per step of the sum, for an AveragePool of that dequantization scale."""
    return (scale / np.float32(prod(kernel_of(node)))).astype(np.float32)
