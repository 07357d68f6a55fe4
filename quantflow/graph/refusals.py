"""Models that cannot be made canonical, refused in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from quantflow.artifacts.model_record import Layer
from quantflow.artifacts.weight_file import array_of
from quantflow.errors import Problem, QuantflowError, fail
from quantflow.graph.edit import constant
from quantflow.graph.names import LAYER_OPS

_FORBIDDEN = {"Loop", "Scan"}
_QUANTIZED = {
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
    "ConvInteger", "MatMulInteger", "AscendQuant", "AscendDequant",
}  # fmt: skip
_DOUBLE, _BRAIN = ir.DataType.DOUBLE, ir.DataType.BFLOAT16
_STANDARD = {
    "com.microsoft": "give the model as it was before onnxruntime or its tools optimized it",
    "com.microsoft.nchwc": "give the model as it was before onnxruntime optimized it",
}
"""How to come by standard operators, by the domain of those that are not."""


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
    """Raise QF208 for double precision in a layer or an input, and for bfloat16 at the boundary."""
    weights = [
        value for node in model.graph if node.op_type in LAYER_OPS for value in node.inputs if value
    ]
    wide = [value for value in (*model.graph.inputs, *weights) if value.dtype == _DOUBLE]
    if wide:
        fail(
            "QF208",
            "the model is in double precision",
            where=str(wide[0].name),
            fix="export it in float32",
        )
    brain = [x for x in (*model.graph.inputs, *model.graph.outputs) if x.dtype == _BRAIN]
    if brain:
        fail(
            "QF208",
            f"{brain[0].name!r} is an input or output in bfloat16, which numpy cannot hold",
            where=str(brain[0].name),
            fix="export the model with float32 or float16 inputs and outputs",
        )


def refuse_nonfinite(model: ir.Model, layers: Sequence[Layer]) -> None:
    """Raise QF217 for every weight and bias of a layer that holds NaN or Inf.

    Args:
        model: a canonical model; its weights are read one at a time.
        layers: of the model.
    """
    users = dict[str, list[str]]()
    for layer in layers:
        for name in filter(None, (layer.weight, layer.bias)):
            users.setdefault(name, []).append(layer.name)
    problems = list[Problem]()
    for name, readers in users.items():
        tensor = constant(model.graph.initializers.get(name))
        bad = 0 if tensor is None else int((~np.isfinite(array_of(tensor))).sum())
        if bad:
            what = f"{name!r} holds {bad} values that are NaN or Inf"
            fix = "export the model from a checkpoint whose weights are finite"
            problems.append(Problem("QF217", what, ", ".join(readers[:5]), fix))
    if problems:
        raise QuantflowError(problems)


def _refuse_domains(model: ir.Model) -> None:
    foreign = [n for n in model.graph.all_nodes() if n.domain not in ("", "ai.onnx")]
    if foreign:
        raise QuantflowError(
            [
                Problem(
                    "QF207",
                    f"operator {n.domain}.{n.op_type} is not standard ONNX",
                    where=str(n.name),
                    fix=_STANDARD.get(n.domain, "export the model with standard operators"),
                )
                for n in foreign[:10]
            ]
        )
