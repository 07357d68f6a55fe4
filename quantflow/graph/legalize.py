"""From whatever a model was exported as to the operators and the opset of a target."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import onnx
import onnx_ir as ir

from quantflow.errors import Problem, QuantflowError, fail
from quantflow.graph.bucket import infer_shapes
from quantflow.graph.edit import opset
from quantflow.graph.lower_opset import lower_opset
from quantflow.graph.passes.decompose_gelu import decompose_gelu
from quantflow.graph.passes.decompose_group_norm import decompose_group_norm
from quantflow.graph.passes.decompose_layer_norm import decompose_layer_norm
from quantflow.graph.passes.decompose_mish import decompose_mish
from quantflow.graph.passes.decompose_reduce_norm import decompose_reduce_norm
from quantflow.graph.passes.decompose_rms_norm import decompose_rms_norm
from quantflow.graph.passes.decompose_swish import decompose_swish
from quantflow.graph.passes.old_resize_modes import old_resize_modes
from quantflow.graph.set_aside import convert_proto
from quantflow.target.op_table import Cann, opset_ceiling, supported

LEAST_OPSET = 13
"""Below it, per-channel quantization cannot be written for onnxruntime."""

_RESIZE_MODES_OPSET = 11
"""Resize says how it maps coordinates from here on; onnx's converter does not say it."""

_DECOMPOSITIONS: Final[tuple[tuple[str, str, Callable[[ir.Model], int]], ...]] = (
    ("Gelu", "Gelu decomposed", decompose_gelu),
    ("Swish", "Swish decomposed", decompose_swish),
    ("Mish", "Mish decomposed", decompose_mish),
    ("ReduceL2", "ReduceL1/ReduceL2 decomposed", decompose_reduce_norm),
    ("ReduceL1", "ReduceL1/ReduceL2 decomposed", decompose_reduce_norm),
    ("LayerNormalization", "LayerNormalization decomposed", decompose_layer_norm),
    ("RMSNormalization", "RMSNormalization decomposed", decompose_rms_norm),
    (
        "GroupNormalization",
        "GroupNormalization written as InstanceNormalization",
        decompose_group_norm,
    ),
)
"""An op type, what a person is told, and the pass that rewrites it where the target lacks it."""


def legalize(model: ir.Model, cann: Cann) -> list[str]:
    """Rewrite what the op table lacks, then convert the opset if it lies outside the bounds.

    Returns:
        A note for each kind of rewrite.

    Raises:
        QuantflowError: QF207 for operators that cannot be compiled, QF209 when the opset is not
            known or cannot be converted.
    """
    ceiling, newest = opset_ceiling(cann), onnx.defs.onnx_opset_version()
    if opset(model) > newest:
        what = f"opset {opset(model)} is not known: onnx {onnx.__version__} ends at {newest}"
        fix = f"export the model with opset {ceiling}"
        fail("QF209", what, where="the model's opset_import", fix=fix)
    notes = list[str]()
    if opset(model) < LEAST_OPSET:
        notes.append(f"opset {opset(model)} raised to {ceiling}")
        _raise_opset(model, ceiling)
    infer_shapes(model)
    for op_type, what, decompose in _DECOMPOSITIONS:
        if not supported(op_type, min(opset(model), ceiling), cann):
            count = decompose(model)
            notes += [f"{what} ({count}x)"] if count else []
    if opset(model) > ceiling:
        check_ops(model, cann, ceiling)
        notes.append(f"opset {opset(model)} lowered to {ceiling}")
        infer_shapes(model)
        lower_opset(model, ceiling)
    return notes


def _raise_opset(model: ir.Model, version: int) -> None:
    """Convert to a newer opset in place, with onnx's own converter."""
    infer_shapes(model)
    try:
        converted = convert_proto(
            model, lambda proto: onnx.version_converter.convert_version(proto, version)
        )
    except Exception as error:
        fix = f"export the model with opset {version}"
        what = f"opset {opset(model)} does not convert to {version}: {error}"
        if named := re.search(r"(\S+) Dimension is a param", str(error)):
            what = f"opset {opset(model)} converts only without free dimensions: {named[1]!r} is"
            fix += ", or give shapes in numbers under [model.inputs.NAME]"
        fail("QF209", what, where="the model's opset_import", fix=fix)
    if opset(model) < _RESIZE_MODES_OPSET:
        old_resize_modes(converted)
    model.graph = converted.graph
    model.opset_imports.update(converted.opset_imports)


def check_ops(model: ir.Model, cann: Cann, version: int) -> None:
    """Raise QF207 for every op type without a parser at an opset."""
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
