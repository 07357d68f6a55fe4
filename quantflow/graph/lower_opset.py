"""Lowering a model to an older opset, by what the older operators can say.

onnx's own converter keeps op types and stops at what it has no rule for (LayerNormalization, or a
Split that gives the number of its outputs). Here small passes first write what is new in the old
way; then every node is held against the operator's definition at the older opset. Between opset 13
and 24 no operator changed its meaning without changing its form, but for GroupNormalization, which
no target has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import onnx
import onnx_ir as ir

from quantflow.errors import Problem, QuantflowError
from quantflow.graph.edit import opset
from quantflow.graph.passes.pad_axes import pad_axes
from quantflow.graph.passes.reduce_axes import reduce_axes
from quantflow.graph.passes.rename_grid_modes import rename_grid_modes
from quantflow.graph.passes.resize_axes import resize_axes
from quantflow.graph.passes.split_sizes import split_sizes

_PASSES: Final[tuple[tuple[int, Callable[[ir.Model], int]], ...]] = (
    (18, reduce_axes),
    (18, pad_axes),
    (18, split_sizes),
    (18, resize_axes),
    (20, rename_grid_modes),
)
"""Each with the opset that brought what it rewrites."""

_NEW_VALUES: Final = {
    ("Pad", "mode", "wrap"): 19,
    ("Resize", "coordinate_transformation_mode", "half_pixel_symmetric"): 19,
    ("Resize", "keep_aspect_ratio_policy", "not_larger"): 18,
    ("Resize", "keep_aspect_ratio_policy", "not_smaller"): 18,
    ("ScatterElements", "reduction", "max"): 18,
    ("ScatterElements", "reduction", "min"): 18,
    ("ScatterND", "reduction", "max"): 18,
    ("ScatterND", "reduction", "min"): 18,
    ("GridSample", "mode", "linear"): 20,
    ("GridSample", "mode", "cubic"): 20,
}
"""Values of attributes that operators' definitions do not list, with the opset they came with."""


def lower_opset(model: ir.Model, version: int) -> None:
    """Make `model` one of an older opset, in place.

    Args:
        model: its shapes are inferred.
        version: of the opset, at least 13.

    Raises:
        QuantflowError: QF209 for every node that the older opset cannot express.
    """
    for since, rewrite in _PASSES:
        if version < since <= opset(model):
            rewrite(model)
    problems = list[Problem]()
    for node in model.graph.all_nodes():
        _drop_new_defaults(node, opset(model), version)
        problems += _misfits(node, version)
    if problems:
        raise QuantflowError(problems)
    model.opset_imports[""] = version


def _definition(op_type: str, version: int) -> Any:
    """The definition of an operator at an opset, or None where there is none."""
    try:
        return onnx.defs.get_schema(op_type, version, "")
    except onnx.defs.SchemaError:
        return None


def _drop_new_defaults(node: ir.Node, old: int, version: int) -> None:
    """Remove attributes that the older opset lacks, where they say what it does anyway."""
    before, after = _definition(node.op_type, old), _definition(node.op_type, version)
    if before is None or after is None:
        return
    for name in set(node.attributes) - set(after.attributes):
        if name in before.attributes and _is_default(node.attributes[name], before, name):
            del node.attributes[name]


def _is_default(attribute: ir.Attr, definition: Any, name: str) -> bool:
    if attribute.is_ref():
        return False
    if name == "dilations":  # whose default is a one for each axis
        return set(attribute.as_ints()) <= {1}
    default = definition.attributes[name].default_value
    if default.type == onnx.AttributeProto.UNDEFINED:
        return False
    value = onnx.helper.get_attribute_value(default)
    return attribute.value == (value.decode() if isinstance(value, bytes) else value)


def _misfits(node: ir.Node, version: int) -> Iterator[Problem]:
    """What the operator cannot say at an opset."""
    definition = _definition(node.op_type, version)
    if definition is None:
        return
    said = [
        f"attribute {name!r}" for name in sorted(set(node.attributes) - {*definition.attributes})
    ]
    said += [
        f"{name} = {value!r}"
        for (op_type, name, value), since in _NEW_VALUES.items()
        if op_type == node.op_type and version < since
        if node.attributes.get_string(name, "") == value
    ]
    if len(node.inputs) > definition.max_input:
        said.append(f"{len(node.inputs)} inputs")
    said += [
        f"{value.dtype} for {value.name!r}"
        for index, value in enumerate(node.inputs)
        if value is not None and not _takes(definition, index, value)
    ]
    for what in said:
        yield Problem(
            "QF209",
            f"{node.op_type} has no {what} at opset {version}",
            where=str(node.name),
            fix=f"export the model at opset {version}, or do without it",
        )


def _takes(definition: Any, index: int, value: ir.Value) -> bool:
    """Whether an operator's input may have the element type of `value`, as far as it is known."""
    if not isinstance(value.type, ir.TensorType) or not definition.inputs:
        return True
    kind = definition.inputs[min(index, len(definition.inputs) - 1)].type_str
    allowed = {c.type_param_str: c.allowed_type_strs for c in definition.type_constraints}
    name = {"FLOAT": "float"}.get(value.type.dtype.name, value.type.dtype.name.lower())
    return f"tensor({name})" in allowed.get(kind, [kind])
