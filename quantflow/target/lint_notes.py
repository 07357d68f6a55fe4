"""What is good to know of a model, beside what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from quantflow.numerics.rounding import truncate_fp19
from quantflow.target.dialect import (
    LintFinding,
    constant,
    has_int8_layers,
    input_of,
    is_int8_layer,
    nodes_of,
    numbers,
)


def lint_notes(model: ir.Model) -> list[LintFinding]:
    """Notes on a model: how much of it is INT8, and what that asks of whoever compiles it."""
    if not has_int8_layers(model):
        free = [str(x.name) for x in model.graph.inputs if x.shape and not x.shape.is_static()]
        notes = [_note("int8-layers", "no INT8 layers: an ordinary float model")]
        if free:
            what = f"free dimensions: {', '.join(free[:5])}"
            notes.append(_note("static-shapes", what, "fix them by atc's --input_shape"))
        return notes
    return [*_layers(model), *_fp19(model)]


def _layers(model: ir.Model) -> Iterator[LintFinding]:
    counts = Counter(node.op_type for node in model.graph.all_nodes() if is_int8_layer(node))
    kinds = ", ".join(f"{count} {op_type}" for op_type, count in sorted(counts.items()))
    what = f"{counts.total()} INT8 layers: {kinds}" if counts else "no INT8 layers"
    fix = "compile it for fixed shapes: no dynamic_batch_size, dynamic_image_size or dynamic_dims"
    yield _note("int8-layers", what, fix)


def _fp19(model: ir.Model) -> Iterator[LintFinding]:
    """What is lost where the chip drops the low 13 mantissa bits of dequantization scales."""
    scales = [
        bits.astype(np.uint32).view(np.float32).ravel()
        for node in nodes_of(model, "AscendDequant")
        if (tensor := constant(input_of(node, 1))) is not None
        if (bits := numbers(tensor)) is not None and bits.dtype == np.uint64
    ]
    found = np.concatenate(scales) if scales else np.zeros(0, np.float32)
    found = found[np.isfinite(found) & (found > 0)].astype(np.float64)
    losses = 1 - truncate_fp19(found.astype(np.float32)) / found
    inexact = int(np.count_nonzero(losses))
    if inexact:
        what = (
            f"on chips that read scales as FP19, {inexact} of {found.size} dequantization scales "
            f"shrink, by up to {losses.max():.2g} (2^-10 at most)"
        )
        yield _note("fp19-scales", what, "nothing: quantflow's comparison includes it")


def _note(rule: str, what: str, fix: str = "") -> LintFinding:
    return LintFinding("info", rule, what, fix=fix)
