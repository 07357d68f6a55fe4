"""Models that cannot be made canonical, refused in words."""

from __future__ import annotations

import onnx_ir as ir

from quantflow.errors import Problem, QuantflowError, fail
from quantflow.graph.names import LAYER_OPS

_FORBIDDEN = {"Loop", "Scan"}
_QUANTIZED = {
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
    "ConvInteger", "MatMulInteger", "AscendQuant", "AscendDequant",
}  # fmt: skip
_HALF = {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}
_DOUBLE = ir.DataType.DOUBLE


def refuse(model: ir.Model) -> None:
    """Raise for loops, quantized models, operators of other domains, and what is not float32."""
    problems = list[Problem]()
    for node in model.graph.all_nodes():
        place = f"{node.op_type} {node.name or '(unnamed)'}"
        if node.op_type in _FORBIDDEN:
            problems.append(
                Problem(
                    "QF207",
                    f"atc has no parser for {node.op_type}",
                    where=place,
                    fix="export the model with its loops unrolled",
                )
            )
        if node.op_type in _QUANTIZED:
            problems.append(
                Problem(
                    "QF208",
                    "the model is already quantized",
                    where=place,
                    fix="give the float32 model it was made from",
                )
            )
            break
    if problems:
        raise QuantflowError(problems)
    refuse_precision(model)
    _refuse_domains(model)


def refuse_precision(model: ir.Model) -> None:
    """Raise QF208 for half precision anywhere, and for layers in double precision."""
    weights = [
        value for node in model.graph if node.op_type in LAYER_OPS for value in node.inputs if value
    ]
    wide = [value for value in (*model.graph.inputs, *weights) if value.dtype == _DOUBLE]
    half = [
        value
        for value in (*model.graph.inputs, *model.graph.initializers.values())
        if value.dtype in _HALF
    ]
    if half or wide:
        fail(
            "QF208",
            f"the model is in {'half' if half else 'double'} precision",
            where=str((half or wide)[0].name),
            fix="export it in float32: fp16 is derived from it",
        )


def _refuse_domains(model: ir.Model) -> None:
    foreign = [n for n in model.graph.all_nodes() if n.domain not in ("", "ai.onnx")]
    if foreign:
        raise QuantflowError(
            [
                Problem(
                    "QF207",
                    f"operator {n.domain}.{n.op_type} is not standard ONNX",
                    where=str(n.name),
                    fix="export the model with standard operators",
                )
                for n in foreign[:10]
            ]
        )
