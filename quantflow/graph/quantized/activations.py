"""The quantization of the activation that a layer reads."""

from __future__ import annotations

import onnx_ir as ir

from quantflow.graph.edit import constant
from quantflow.graph.quantized.affine import activation_params, affine_of, is_dequantize
from quantflow.graph.quantized.grid_ops import grid_inputs
from quantflow.numerics.quantize import QuantParams

FLOAT_INPUT = "its input is float in the quantized file"


def activation_of(value: ir.Value | None) -> QuantParams | str:
    """Scale and zero point of the grid that a value lies on, or why there is none for AscendQuant.

    The DequantizeLinear need not be right before the value: a Reshape or MaxPool between leaves the
    values what they are.

    Raises:
        QuantflowError: QF230 as `affine_of`.
    """
    found, waiting, seen = set[QuantParams | str](), [value], set[ir.Value | None]()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        node = current.producer() if current is not None else None
        if node is not None and is_dequantize(node) and constant(node.inputs[0]) is None:
            found.add(activation_params(affine_of(node)))
            continue
        sources = grid_inputs(node) if node is not None else None
        if sources is None:
            return FLOAT_INPUT
        waiting.extend(sources)
    if len(found) > 1:
        return "its input joins values of different scales"
    return found.pop() if found else FLOAT_INPUT
