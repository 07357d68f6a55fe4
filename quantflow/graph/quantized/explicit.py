"""Quantization at the model's boundary, in elementary operators.

Where integers come in or go out, the quantization is part of what the model does, and stays.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.errors import fail
from quantflow.graph.edit import replace_node
from quantflow.graph.quantized.affine import Affine

_LEVELS = {ir.DataType.INT8: (-128, 127), ir.DataType.UINT8: (0, 255)}


def write_dequantize(node: ir.Node, affine: Affine) -> None:
    """Replace a DequantizeLinear by ``(float(q) - zero_point) * scale``.

    Raises:
        QuantflowError: QF230 for scales per channel.
    """
    _require_per_tensor(node, affine)
    tape, kind = ir.tape.Tape(), np.dtype(affine.wide)
    steps = tape.op("Cast", [node.inputs[0]], {"to": ir.DataType.from_numpy(kind).value})
    zero = _constant(tape, f"{node.name}/zero_point", float(affine.zero_point), kind)
    scale = _constant(tape, f"{node.name}/scale", float(affine.scale), kind)
    replace_node(node, tape, tape.op("Mul", [tape.op("Sub", [steps, zero]), scale]))


def write_quantize(node: ir.Node, affine: Affine) -> None:
    """Replace a QuantizeLinear by ``int8(clip(round(x / scale) + zero_point))``.

    Raises:
        QuantflowError: QF230 for scales per channel, and types other than int8 and uint8.
    """
    _require_per_tensor(node, affine)
    if affine.dtype not in _LEVELS:
        what = f"the model puts out {affine.dtype.name.lower()}"
        fail("QF230", what, where=str(node.name), fix="quantize with float outputs")
    tape, kind = ir.tape.Tape(), np.dtype(affine.wide)
    scale = _constant(tape, f"{node.name}/scale", float(affine.scale), kind)
    zero = _constant(tape, f"{node.name}/zero_point", float(affine.zero_point), kind)
    low, high = (
        _constant(tape, f"{node.name}/{name}", float(bound), kind)
        for name, bound in zip(("low", "high"), _LEVELS[affine.dtype], strict=True)
    )
    steps = tape.op("Round", [tape.op("Div", [node.inputs[0], scale])])
    raised = tape.op("Max", [tape.op("Add", [steps, zero]), low])
    clipped = tape.op("Min", [raised, high])
    replace_node(node, tape, tape.op("Cast", [clipped], {"to": affine.dtype.value}))


def _constant(tape: ir.tape.Tape, name: str, value: float, kind: np.dtype[np.floating]) -> ir.Value:
    return tape.initializer(ir.tensor(np.asarray(value, kind)), name=name)


def _require_per_tensor(node: ir.Node, affine: Affine) -> None:
    if affine.scale.ndim:
        what = f"{node.op_type} {node.name!r} at the model's boundary has a scale per channel"
        fail("QF230", what, where=str(node.name), fix="quantize with float inputs and outputs")
