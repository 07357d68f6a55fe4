"""Attention masks whose fill value fp16 cannot hold.

Exporters fill masked positions with the most negative float32 or with minus infinity. In fp16 the
former is minus infinity too, and every tensor on the way to the softmax would look like an
overflow. Any fill far below the scores does the same: ``exp(-16384 + score)`` is exactly 0 in
float32 for every score below 16,000 or so.

A constant is a fill where it is selected for some positions (by Where, by Max, or multiplied by
ones and zeros), or where it is added and only some of its elements are large. Whatever else scales
scores, or is looked up in a table, is none, however large.

A row that is masked throughout differs. With the lowest float32 it attended uniformly, with minus
infinity it was NaN (or 0, where the model guards against that); afterwards it attends by its
scores, as if nothing were masked. Such rows are those of padding, which nothing reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.weight_file import array_of
from quantflow.graph.edit import constant
from quantflow.numerics.rounding import FP16_MAX

MASK_FILL = 16384.0

_LAYOUT = {"Cast", "Expand", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that move elements, or repeat them."""

_COMBINING = {"Add", "Concat", "Max", "Min", "Where"}
"""Operators on a mask that leave a masked position one."""


def clamp_attention_mask(model: ir.Model) -> int:
    """Bring the negative fills of masks that only feed a softmax from beyond fp16 to -16384."""
    changed = 0
    for value in list(model.graph.initializers.values()):
        tensor = constant(value)
        if tensor is None or tensor.dtype != ir.DataType.FLOAT or tensor.size > 2**24:
            continue
        array = array_of(tensor)
        large = array < -FP16_MAX
        positive = (array > FP16_MAX) & np.isfinite(array)
        if not large.any() or positive.any():
            continue
        if _feeds_only_softmax(value, added=not large.all()):
            clamped = np.where(large, np.float32(-MASK_FILL), array)
            value.const_value = ir.tensor(clamped.astype(np.float32), name=value.name)
            changed += 1
    return changed


def _feeds_only_softmax(initializer: ir.Value, *, added: bool) -> bool:
    """Whether every path from a constant makes a mask of it, which reaches a Softmax.

    Args:
        initializer: the constant.
        added: whether adding it makes a mask, as it does where not all elements are large.
    """
    waiting, seen, found = [(initializer, False)], set[tuple[ir.Value, bool]](), False
    while waiting:
        value, is_mask = waiting.pop()
        if (value, is_mask) in seen:
            continue
        seen.add((value, is_mask))
        if value.is_graph_output():
            return False
        for use in value.uses():
            if is_mask and use.node.op_type == "Softmax":
                found = True
                continue
            if not _carries(use.node, use.idx, is_mask=is_mask, added=added):
                return False
            moved = use.node.op_type in _LAYOUT
            waiting.append((use.node.outputs[0], is_mask or not moved))
    return found


def _carries(node: ir.Node, index: int, *, is_mask: bool, added: bool) -> bool:
    """Whether a node that reads a mask, or the constant that is to be one, gives a mask.

    Nodes that move elements give what they are given.
    """
    kind = node.op_type
    if kind == "Mul":
        return _is_binary(node.inputs[1 - index])
    if kind == "Where":
        return index > 0
    if kind in _LAYOUT or (kind == "Gather" and is_mask):
        return index == 0
    selects = kind in ("Concat", "Max") or (kind == "Add" and added)
    return kind in _COMBINING and (is_mask or selects)


def _is_binary(value: ir.Value | None) -> bool:
    """Whether a value is ones and zeros, as far as can be told; integers that are given count."""
    if value is None:
        return False
    tensor, node = constant(value), value.producer()
    if tensor is not None:
        return tensor.size <= 2**24 and _all_binary(array_of(tensor))
    if value.dtype == ir.DataType.BOOL:
        return True
    if node is None:
        return value.dtype is not None and value.dtype.is_integer()
    if node.op_type in (*_LAYOUT, "Gather", "Not"):
        return _is_binary(node.inputs[0])
    if node.op_type == "Sub":
        one = constant(node.inputs[0])
        return one is not None and bool((array_of(one) == 1).all()) and _is_binary(node.inputs[1])
    if node.op_type in ("Mul", "Max", "Min"):
        return all(_is_binary(operand) for operand in node.inputs)
    if node.op_type == "Where":
        return all(_is_binary(operand) for operand in node.inputs[1:])
    return False


def _all_binary(array: NDArray[Any]) -> bool:
    return bool(((array == 0) | (array == 1)).all())
