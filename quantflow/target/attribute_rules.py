# pyright: reportUnknownMemberType=false
"""Rules about ordinary operators: attributes and inputs are those of ONNX's definitions.

atc reads attributes by name and type. One of another type, or one that belongs to another opset
(the axes of a ReduceMean, say), is dropped without a word and its default taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import onnx
import onnx_ir as ir

from quantflow.target.dialect import LintFinding, label, model_opset


def op_attributes(model: ir.Model) -> Iterator[LintFinding]:
    """Attributes have the names and types that the operator's definition gives them."""
    for node, definition in _defined(model):
        known = definition.attributes
        for name, attribute in node.attributes.items():
            place = f"{node.op_type} at opset {definition.since_version}"
            if name not in known:
                what = f"attribute {name!r} is none of {place}; atc drops it and takes a default"
                yield _error("op-attributes", node, what, "write the node as its opset has it")
            elif not attribute.is_ref() and attribute.type.name != _kind(known[name]):
                what = (
                    f"attribute {name!r} is {attribute.type.name}, of {place} it is "
                    f"{_kind(known[name])}; atc drops it and takes a default"
                )
                yield _error("op-attributes", node, what, f"write it as {_kind(known[name])}")
        for name, attribute in known.items():
            if attribute.required and name not in node.attributes:
                what = f"attribute {name!r}, which {node.op_type} needs, is missing"
                yield _error("op-attributes", node, what, "add it")


def op_inputs(model: ir.Model) -> Iterator[LintFinding]:
    """No input that an operator needs is left out, and none is there that it does not know."""
    for node, definition in _defined(model):
        given = len(node.inputs)
        needed = [value for value in node.inputs[: definition.min_input] if value is not None]
        if len(needed) < definition.min_input:
            what = f"it has {len(needed)} of the {definition.min_input} inputs that it needs"
            yield _error("op-inputs", node, what, "connect them")
        elif given > definition.max_input:
            what = f"it has {given} inputs, and knows {definition.max_input}"
            yield _error("op-inputs", node, what, "write the node as its opset has it")


def _defined(model: ir.Model) -> Iterator[tuple[ir.Node, onnx.defs.OpSchema]]:
    """The nodes of standard operators, each with its definition."""
    opset = model_opset(model)
    if opset is None or not 1 <= opset <= onnx.defs.onnx_opset_version():
        return
    for node in model.graph.all_nodes():
        definition = _definition(node.op_type, opset) if node.domain in ("", "ai.onnx") else None
        if definition is not None:
            yield node, definition


def _kind(attribute: Any) -> str:
    """The type that a definition gives an attribute: ``INTS``, say."""
    return attribute.type.name


@cache
def _definition(op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None


def _error(rule: str, node: ir.Node, what: str, fix: str) -> LintFinding:
    return LintFinding("error", rule, what, label(node), fix)
