"""The canonical model: the one graph that is calibrated, swept and exported.

Whatever the model came as, it leaves as float32 operators of one opset that the target has parsers
for, with unique names, constants folded and Gemm in its plain form. Q, K and V are not fused.
"""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import (
    ClearMetadataAndDocStringPass,
    CommonSubexpressionEliminationPass,
    IdentityEliminationPass,
    InlinePass,
    NameFixPass,
    RemoveInitializersFromInputsPass,
    RemoveUnusedOpsetsPass,
)

from quantflow.errors import fail
from quantflow.graph.bucket import fold, infer_shapes, lift_constants
from quantflow.graph.edit import opset, with_bodies
from quantflow.graph.legalize import check_ops, legalize
from quantflow.graph.names import LAYER_OPS, make_node_names_unique, name_weights, rename_outputs
from quantflow.graph.passes.clamp_attention_mask import clamp_attention_mask
from quantflow.graph.passes.einsum_matmul import einsum_matmul
from quantflow.graph.passes.fold_batch_norm import fold_batch_norm
from quantflow.graph.passes.fold_conv_bias import fold_conv_bias
from quantflow.graph.passes.normalize_gemm import normalize_gemm
from quantflow.graph.passes.order_addition import order_addition
from quantflow.graph.passes.resolve_auto_pad import resolve_auto_pad
from quantflow.graph.passes.transpose_constant import transpose_constant
from quantflow.graph.passes.widen_half import widen_half
from quantflow.graph.refusals import refuse, refuse_precision
from quantflow.target.op_table import Cann

WIDENED = "values in half precision widened to float32"
"""The note on a model that computes in another precision than its canonical form."""

CLAMPED = "mask fill values beyond fp16 set to 16384"
"""The note on a model whose masks were changed."""


def canonicalize(model: ir.Model, cann: Cann, *, clamp_masks: bool = True) -> list[str]:
    """Bring `model` into canonical form, in place.

    Args:
        model: a float32 model; changed.
        cann: which op table and opset ceiling apply.
        clamp_masks: bring the fill values of masks within fp16.

    Returns:
        Notes for a person, such as what was rewritten and what stays float.

    Raises:
        QuantflowError: QF201 for a model without an opset, QF207 for operators that cannot be
            compiled, QF208 for a model that is quantized or not in float32, QF209 when the opset
            cannot be converted.
    """
    outputs = [str(value.name) for value in model.graph.outputs]
    _settle_domain(model)
    InlinePass()(model)
    RemoveInitializersFromInputsPass()(model)
    refuse(model)
    make_node_names_unique(model)
    notes = _if_notes(model) + _recurrent_notes(model)
    lift_constants(model)
    notes += _note(WIDENED, widen_half(model))
    transpose_constant(model)
    fold(model)
    refuse_precision(model)
    notes += legalize(model, cann)
    infer_shapes(model)
    resolve_auto_pad(model)
    fold_conv_bias(model)
    said = "BatchNormalization with no layer to fold it into written as Mul and Add"
    notes += _note(said, fold_batch_norm(model))
    normalize_gemm(model)
    einsum_matmul(model)
    order_addition(model)
    if clamp_masks:
        notes += _note(CLAMPED, clamp_attention_mask(model))
    _tidy(model, outputs)
    check_ops(model, cann, opset(model))
    return notes


def _tidy(model: ir.Model, outputs: list[str]) -> None:
    IdentityEliminationPass()(model)
    CommonSubexpressionEliminationPass()(model)
    fold(model)
    rename_outputs(model, outputs)
    NameFixPass()(model)
    make_node_names_unique(model)
    name_weights(model)
    RemoveUnusedOpsetsPass()(model)
    ClearMetadataAndDocStringPass()(model)
    infer_shapes(model)
    model.producer_name, model.producer_version, model.doc_string = "quantflow", None, None
    model.metadata_props.clear()
    model.graph.name = "main"


def _settle_domain(model: ir.Model) -> None:
    """Spell the standard domain as the empty string."""
    imports = model.opset_imports
    if "ai.onnx" in imports:
        imports[""] = imports.pop("ai.onnx")
    if "" not in imports:
        fail("QF201", "the model imports no ONNX opset", fix="export it with an opset import")


def _if_notes(model: ir.Model) -> list[str]:
    notes = list[str]()
    for node in model.graph:
        if node.op_type == "If":
            inner = (x.name for x in with_bodies(node) if x.op_type in LAYER_OPS)
            names = ", ".join(map(str, inner)) or "none"
            notes.append(f"If node {node.name!r}: the layers in its branches stay float: {names}")
    return notes


def _recurrent_notes(model: ir.Model) -> list[str]:
    """Which nodes hold weights that are no layers' and so stay float."""
    return [
        f"{node.op_type} node {node.name!r} stays float, its weights too"
        for node in model.graph.all_nodes()
        if node.op_type in ("LSTM", "GRU", "RNN")
    ]


def _note(what: str, count: int) -> list[str]:
    return [f"{what} ({count}x)"] if count else []
