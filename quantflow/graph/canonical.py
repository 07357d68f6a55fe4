"""The canonical model: the one graph that is calibrated, swept and exported.

Whatever the model came as, it leaves as float32 operators of one opset that the target has parsers
for, with unique names, constants folded and Gemm in its plain form. Q, K and V are not fused.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx
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
from onnxscript.rewriter import rewrite
from onnxscript.rewriter.rules.common import (
    fuse_batchnorm_into_conv_rule,
    fuse_batchnorm_into_conv_transpose_rule,
    fuse_batchnorm_into_gemm_rule,
)

from quantflow.errors import Problem, QuantflowError, fail
from quantflow.graph.bucket import fold, infer_shapes
from quantflow.graph.edit import opset, with_bodies
from quantflow.graph.names import LAYER_OPS, make_node_names_unique, name_weights, rename_outputs
from quantflow.graph.passes.clamp_attention_mask import clamp_attention_mask
from quantflow.graph.passes.decompose_gelu import decompose_gelu
from quantflow.graph.passes.decompose_layer_norm import decompose_layer_norm
from quantflow.graph.passes.decompose_reduce_norm import decompose_reduce_norm
from quantflow.graph.passes.normalize_gemm import normalize_gemm
from quantflow.graph.passes.order_addition import order_addition
from quantflow.graph.refusals import refuse, refuse_precision
from quantflow.target.op_table import Cann, opset_ceiling, supported

LEAST_OPSET = 13
"""Below it, per-channel quantization cannot be written for onnxruntime."""

_NOOP = "noop_with_empty_axes"


def canonicalize(model: ir.Model, cann: Cann) -> list[str]:
    """Bring `model` into canonical form, in place.

    Args:
        model: a float32 model; changed.
        cann: which op table and opset ceiling apply.

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
    notes = _if_notes(model)
    fold(model)
    refuse_precision(model)
    notes += _legalize(model, cann)
    _fold_batch_norm(model)
    normalize_gemm(model)
    order_addition(model)
    notes += _note("mask fill values beyond fp16 set to 16384", clamp_attention_mask(model))
    _tidy(model, outputs)
    _check_ops(model, cann, opset(model))
    return notes


def _fold_batch_norm(model: ir.Model) -> None:
    """Fold BatchNormalization into the layer before it, which keeps its name."""
    layer_of = {
        norm.outputs[0].name: layer.name
        for norm in model.graph
        if norm.op_type == "BatchNormalization" and norm.inputs[0] is not None
        if (layer := norm.inputs[0].producer()) is not None
    }
    rewrite(
        model,
        [
            fuse_batchnorm_into_conv_rule,
            fuse_batchnorm_into_conv_transpose_rule,
            fuse_batchnorm_into_gemm_rule,
        ],
    )
    for node in model.graph:
        if node.op_type in LAYER_OPS and node.outputs[0].name in layer_of:
            node.name = layer_of[node.outputs[0].name]


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


def _note(what: str, count: int) -> list[str]:
    return [f"{what} ({count}x)"] if count else []


def _legalize(model: ir.Model, cann: Cann) -> list[str]:
    """Rewrite what the op table lacks, then convert the opset if it lies outside the bounds."""
    ceiling = opset_ceiling(cann)
    notes = list[str]()
    if opset(model) < LEAST_OPSET:
        notes.append(f"opset {opset(model)} raised to {ceiling}")
        _convert(model, ceiling)
    passes: tuple[tuple[str, str, Callable[[ir.Model], int]], ...] = (
        ("Gelu", "Gelu decomposed", decompose_gelu),
        ("ReduceL2", "ReduceL1/ReduceL2 decomposed", decompose_reduce_norm),
        ("ReduceL1", "ReduceL1/ReduceL2 decomposed", decompose_reduce_norm),
        ("LayerNormalization", "LayerNormalization decomposed", decompose_layer_norm),
    )
    for op_type, what, decompose in passes:
        if not supported(op_type, min(opset(model), ceiling), cann):
            notes += _note(what, decompose(model))
    if opset(model) > ceiling:
        # Lowering keeps op types, and stops without a clear word at those that are too new.
        _check_ops(model, cann, ceiling)
        notes.append(f"opset {opset(model)} lowered to {ceiling}")
        _convert(model, ceiling)
    return notes


def _convert(model: ir.Model, version: int) -> None:
    """Convert the opset in place with onnx's own converter."""
    for node in model.graph:
        # The converter carries this attribute, at its default, to opsets that do not know it.
        if node.op_type.startswith("Reduce") and not node.attributes.get_int(_NOOP, 0):
            node.attributes.pop(_NOOP, None)
    infer_shapes(model)
    try:
        proto = onnx.version_converter.convert_version(ir.to_proto(model), version)
    except Exception as error:
        fail(
            "QF209",
            f"opset {opset(model)} does not convert to {version}: {error}",
            where="the model's opset_import",
            fix=f"export the model with opset {version}",
        )
    converted = ir.from_proto(proto)
    model.graph = converted.graph
    model.opset_imports.update(converted.opset_imports)


def _check_ops(model: ir.Model, cann: Cann, version: int) -> None:
    missing = dict[str, str]()
    for node in model.graph.all_nodes():
        if not supported(node.op_type, version, cann):
            missing.setdefault(node.op_type, str(node.name))
    if missing:
        raise QuantflowError(
            [
                Problem(
                    "QF207",
                    f"atc ({cann}) has no parser for {op_type} at opset {version}",
                    where=name,
                    fix="replace the operator in the model",
                )
                for op_type, name in missing.items()
            ]
        )
