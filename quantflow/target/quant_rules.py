"""Rules about AscendQuant: attributes, readers, duplicates.

``y = clip(rint(x * scale) + offset, -128, 127)``: the scale is the inverse of the activation's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from quantflow.target.dialect import (
    LAYER_OPS,
    LintFinding,
    constant,
    input_of,
    is_int8_pair,
    label,
    nodes_of,
)

SCALE_MIN: Final = 2.0**-23
SCALE_MAX: Final = 2.0**23

_ATTRIBUTES: Final = {
    "scale": ir.AttributeType.FLOAT,
    "offset": ir.AttributeType.FLOAT,
    "dst_type": ir.AttributeType.STRING,
}


def quant_attributes(model: ir.Model) -> Iterator[LintFinding]:
    """Names, types and bounds; atc drops an attribute of the wrong type and reads 0 instead."""
    for node in nodes_of(model, "AscendQuant"):
        for name, kind in _ATTRIBUTES.items():
            problem = _attribute_problem(node, name, kind)
            if problem:
                what, fix = problem
                yield LintFinding("error", "quant-attributes", what, label(node), fix)
        for name in sorted(set(node.attributes) - set(_ATTRIBUTES)):
            yield LintFinding(
                "warning",
                "quant-attributes",
                f"attribute {name!r} is none of AscendQuant's",
                label(node),
                "remove it",
            )


def _attribute_problem(node: ir.Node, name: str, kind: ir.AttributeType) -> tuple[str, str] | None:
    attribute = node.attributes.get(name)
    if attribute is None:
        return f"attribute {name!r} is missing", f"add it as {kind.name}"
    if attribute.is_ref() or attribute.type != kind:
        found = "a reference" if attribute.is_ref() else attribute.type.name
        return (
            f"attribute {name!r} is {found}; atc drops it without a word and reads 0",
            f"write it as {kind.name}",
        )
    value = attribute.value
    if name == "scale" and not SCALE_MIN <= value <= SCALE_MAX:
        return f"scale {value:g} is outside [2^-23, 2^23]", "leave the layers it feeds in fp16"
    if name == "offset" and not (
        math.isfinite(value) and value == round(value) and -128 <= value <= 127
    ):
        return f"offset {value:g} is no integer in -128..127", "write the activation's zero point"
    if name == "dst_type" and value != "INT8":
        return f"dst_type is {value!r}", 'write "INT8"'
    return None


def quant_readers(model: ir.Model) -> Iterator[LintFinding]:
    """One float in, one int8 out, which only layers read, as their activation."""
    for node in nodes_of(model, "AscendQuant"):
        if len(node.inputs) != 1 or node.inputs[0] is None or len(node.outputs) != 1:
            what = f"it has {len(node.inputs)} input(s) and {len(node.outputs)} output(s)"
            yield LintFinding("error", "quant-readers", what, label(node), "one of each is due")
            continue
        output = node.outputs[0]
        readers = [
            f"{label(use.node)} ({use.node.op_type}, input {use.idx})"
            for use in output.uses()
            if use.node.op_type not in LAYER_OPS
            or (use.idx != 0 and not (use.idx == 1 and is_int8_pair(use.node)))
        ]
        if output.is_graph_output():
            readers.append("the output of the graph")
        for reader in readers:
            yield LintFinding(
                "error",
                "quant-readers",
                f"its int8 output is read by {reader}, which is no layer's activation",
                label(node),
                "let that reader take the float tensor",
            )
        if not readers and not output.uses():
            yield LintFinding("warning", "quant-readers", "nobody reads it", label(node), "drop it")


def quant_sources(model: ir.Model) -> Iterator[LintFinding]:
    """What is quantized is a float tensor that is computed, in float32 or float16."""
    for node in nodes_of(model, "AscendQuant"):
        source = input_of(node, 0)
        if source is None:
            continue
        if source.dtype not in (None, ir.DataType.FLOAT, ir.DataType.FLOAT16):
            what = f"its input {source.name!r} is {source.dtype}"
            fix = "quantize float32 or float16, put a Cast in front"
            yield LintFinding("error", "quant-sources", what, label(node), fix)
        elif constant(source) is not None:
            what = f"its input {source.name!r} is constant"
            fix = "only activations are quantized by a node; store weights as int8"
            yield LintFinding("warning", "quant-sources", what, label(node), fix)


def quant_pairs(model: ir.Model) -> Iterator[LintFinding]:
    """A MatMul of two variables is symmetric: neither input has an offset."""
    for node in nodes_of(model, "MatMul"):
        if not is_int8_pair(node):
            continue
        for value in node.inputs[:2]:
            quant = value.producer() if value is not None else None
            offset = quant.attributes.get("offset") if quant is not None else None
            if quant is not None and offset is not None and offset.value != 0:
                what = f"it feeds a MatMul of two variables, {label(node)}, with an offset"
                yield LintFinding("error", "quant-pairs", what, label(quant), "write offset 0")


def quant_duplicates(model: ir.Model) -> Iterator[LintFinding]:
    """Equal AscendQuant nodes on one tensor are one node too many."""
    first: dict[tuple[object, ...], ir.Node] = {}
    for node in nodes_of(model, "AscendQuant"):
        values = (node.attributes.get(name) for name in _ATTRIBUTES)
        settings = tuple(None if value is None else repr(value.value) for value in values)
        key = (id(input_of(node, 0)), *settings)
        if key in first:
            yield LintFinding(
                "warning",
                "quant-duplicates",
                f"it repeats {label(first[key])}",
                label(node),
                "let all layers of a group read one AscendQuant",
            )
        first.setdefault(key, node)
