"""Relu and Relu6 that a quantizer left to the quantization to do.

onnxruntime removes a Relu or Clip in front of a QuantizeLinear whose integers begin at zero and end
where the Clip does: saturation does the same. Without the QuantizeLinear it must come back.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import opset
from quantflow.graph.quantized.affine import Affine
from quantflow.graph.quantized.sign import never_negative

_LEVELS = {ir.DataType.INT8: (-128, 127), ir.DataType.UINT8: (0, 255)}

RELU6_TOLERANCE = 1e-6
"""How far from 6, relatively, a scale in float32 may put the last level of a Relu6."""


def restore_activation(quantize: ir.Node, affine: Affine, model: ir.Model) -> ir.Value | None:
    """Put the Relu or Relu6 that a QuantizeLinear stands for in front of it.

    Returns:
        Its output; None where the QuantizeLinear does nothing but quantize, as far as can be told.
        The model's inputs are taken as they are.
    """
    source, levels = quantize.inputs[0], _LEVELS.get(affine.dtype)
    if source is None or source.is_graph_input() or affine.scale.ndim or levels is None:
        return None
    lowest, highest = levels
    if int(affine.zero_point) != lowest or never_negative(source):
        return None
    top = float(affine.scale) * (highest - lowest)
    node = _relu6(source, quantize, affine, model) if _is_six(top) else ir.node("Relu", [source])
    node.name = f"{quantize.name}/{node.op_type}"
    node.outputs[0].name = f"{source.name}/{node.op_type}"
    node.outputs[0].type, node.outputs[0].shape = source.type, source.shape
    assert isinstance(quantize.graph, ir.Graph)
    quantize.graph.insert_before(quantize, node)
    return node.outputs[0]


def _is_six(top: float) -> bool:
    return abs(top / 6.0 - 1.0) < RELU6_TOLERANCE


def _relu6(source: ir.Value, quantize: ir.Node, affine: Affine, model: ir.Model) -> ir.Node:
    if opset(model) < 11:
        return ir.node("Clip", [source], {"min": 0.0, "max": 6.0})
    bounds = list[ir.Value]()
    for name, bound in (("low", 0.0), ("high", 6.0)):
        tensor = ir.tensor(np.asarray(bound, affine.wide), name=f"{quantize.name}/{name}")
        value = ir.val(str(tensor.name), const_value=tensor)
        model.graph.register_initializer(value)
        bounds.append(value)
    return ir.node("Clip", [source, *bounds])
