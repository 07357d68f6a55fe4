"""A QDQ model read: the float model in it, and how its layers are quantized."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import (
    InlinePass,
    LiftConstantsToInitializersPass,
    RemoveInitializersFromInputsPass,
)
from onnxscript.optimizer import fold_constants_ir

from quantflow.errors import fail
from quantflow.graph.bucket import FOLD_LIMIT_BYTES
from quantflow.graph.names import make_node_names_unique
from quantflow.graph.quantized.affine import DOMAINS, is_dequantize, is_quantize
from quantflow.graph.quantized.expand_qoperators import expand_qoperators
from quantflow.graph.quantized.file_layers import FileQuantization, file_layers
from quantflow.graph.quantized.to_float import to_float
from quantflow.graph.quiet import quiet

_MARKS = {
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger",
    "QGemm", "DynamicQuantizeMatMul", "MatMulIntegerToFloat",
}  # fmt: skip


def is_quantized(model: ir.Model) -> bool:
    """Whether any operator of a model quantizes, or computes on quantized integers."""
    bodies = (model.graph, *model.functions.values())
    return any(_marked(node) for body in bodies for node in body.all_nodes())


def read_qdq(model: ir.Model) -> FileQuantization | None:
    """Turn a QDQ model into the float model in it, in place.

    Operators in integers (QLinearConv and its kin) are read as the QDQ that they stand for.

    Args:
        model: as it came; not yet canonical.

    Returns:
        How its layers were quantized; None, and nothing is changed, where it is not quantized.

    Raises:
        QuantflowError: QF230 for quantization that cannot be taken apart.
    """
    if not is_quantized(model):
        return None
    InlinePass()(model)
    RemoveInitializersFromInputsPass()(model)
    make_node_names_unique(model)
    _check_inputs(model)
    _fold(model)
    expand_qoperators(model)
    layers = file_layers(model)
    return FileQuantization(layers, to_float(model), model.producer_name or "")


def _marked(node: ir.Node) -> bool:
    known = node.op_type in _MARKS or node.op_type.startswith("QLinear")
    return known and node.domain in DOMAINS


def _check_inputs(model: ir.Model) -> None:
    """Raise QF230 for a QuantizeLinear or DequantizeLinear without a value or without a scale."""
    for node in model.graph.all_nodes():
        known = is_quantize(node) or is_dequantize(node)
        if known and (len(node.inputs) < 2 or None in node.inputs[:2]):
            what = f"{node.op_type} {node.name!r} has no value or no scale to read"
            fail("QF230", what, where=str(node.name), fix="write the file anew")


def _fold(model: ir.Model) -> None:
    """Make constants of scales and zero points that are computed from constants."""

    def foldable(node: ir.Node) -> bool | None:
        return False if is_quantize(node) or is_dequantize(node) else None

    with quiet("onnxscript.optimizer._constant_folding", "onnx_ir"):
        fold_constants_ir(
            model,
            input_size_limit=FOLD_LIMIT_BYTES,
            output_size_limit=FOLD_LIMIT_BYTES,
            should_fold=foldable,
        )
        LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
