"""Where a scale of every channel of a tensor can come from: constants of the nodes that make it.

To divide channel k of a tensor by ``s[k]``, one goes back from it to weights, biases and factors in
which every path into the tensor can be divided instead. No node is added. The way leads through
what is linear in every channel (Add, Mul, Reshape, Transpose, Expand, the product with an attention
matrix), through what commutes with a positive factor (Relu, MaxPool, averages) and through parts of
fused layers (Split, Slice, Gather), whose other parts stay as they are; it ends at a layer, a
normalization's scale and bias, or any constant factor: at most one a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import constant, static_shape
from quantflow.recovery.classes import Ids
from quantflow.recovery.walk import (
    MOVES,
    Edit,
    Edits,
    Fold,
    Rule,
    Walk,
    find_ways,
    one_beside,
    same,
)


def find_fold(value: ir.Value, axis: int, readers: frozenset[str]) -> Fold | None:
    """How the channels of a tensor can be divided by a scale; None where they cannot.

    Args:
        value: the tensor, of a static model.
        axis: of its channels.
        readers: names of the nodes that make up for the scale. A tensor that others read as well
            cannot be divided.
    """
    shape = static_shape(value)
    if shape is None:
        return None
    axis %= len(shape)
    along = [-1 if i == axis else 1 for i in range(len(shape))]
    ids = np.arange(shape[axis], dtype=np.int64).reshape(along)
    found = find_folds([(value, ids)], readers)
    return found[0] if found is not None else None


def find_folds(
    sides: Sequence[tuple[ir.Value, Ids]], readers: frozenset[str]
) -> tuple[Fold, ...] | None:
    """The same of several values whose elements are of common classes; see `find_ways`."""
    return find_ways(sides, readers, _RULES)


def _pooled(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    return walk.input(node, 0, ids) if one_beside(ids, axis=1) else None


def _padded(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    filler = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    zero = len(node.inputs) < 3 or (filler is not None and not np.any(filler.numpy()))
    pads = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if pads is None or (pads.numpy() < 0).any():  # which could move channels
        return None
    before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if before is None or after is None or ids.ndim < 2 or before[1] != after[1]:
        return None
    return _pooled(walk, node, ids) if zero else None


def _add(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    found = list[Edit]()
    for index in (0, 1):
        if constant(node.inputs[index]) is not None:
            found.append(Edit(str(node.name), index, ids))
            continue
        shape = static_shape(node.inputs[index])
        edits = None if shape is None else walk.input(node, index, walk.fitted(ids, shape))
        if edits is None:
            return None
        found += edits
    return found


def _mul(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    """One of the two takes the factor; the other may be a factor a row."""
    return walk.either(node, ids, (1, 0))


def _div(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    if constant(node.inputs[0]) is not None:
        return [Edit(str(node.name), 0, ids)]
    shape = static_shape(node.inputs[0])
    return None if shape is None else walk.input(node, 0, walk.fitted(ids, shape))


def _normalization(_: Walk, node: ir.Node, ids: Ids) -> Edits:
    parameters = [index for index in range(1, len(node.inputs)) if node.inputs[index] is not None]
    if any(constant(node.inputs[index]) is None for index in parameters):
        return None
    last = node.attributes.get_int("axis", -1) in (-1, ids.ndim - 1)
    if not last or not one_beside(ids, axis=-1):
        return None
    return [Edit(str(node.name), index, ids.reshape(-1)) for index in parameters]


def _matmul(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    if constant(node.inputs[1]) is None:
        return walk.mixed(node, ids)
    shape = static_shape(node.inputs[1])
    if shape is None or not one_beside(ids, axis=-1) or len(shape) != 2:
        return None
    return [Edit(str(node.name), 1, ids.reshape(1, -1))]  # a layer: its columns


def _gemm(_: Walk, node: ir.Node, ids: Ids) -> Edits:
    if constant(node.inputs[1]) is None or node.attributes.get_int("transB", 0):
        return None
    if not one_beside(ids, axis=-1):
        return None
    return _with_bias(node, [Edit(str(node.name), 1, ids.reshape(1, -1))], ids.reshape(-1))


def _conv(_: Walk, node: ir.Node, ids: Ids) -> Edits:
    shape = static_shape(node.inputs[1])
    if constant(node.inputs[1]) is None or shape is None or not one_beside(ids, axis=1):
        return None
    rows = ids.reshape(-1, *(1,) * (len(shape) - 1))
    return _with_bias(node, [Edit(str(node.name), 1, rows)], ids.reshape(-1))


def _with_bias(node: ir.Node, edits: list[Edit], ids: Ids) -> Edits:
    bias = (*node.inputs, None)[2]
    if bias is None:
        return edits
    return [*edits, Edit(str(node.name), 2, ids)] if constant(bias) is not None else None


_RULES: Final[dict[str, Rule]] = {
    **MOVES,
    "Add": _add,
    "AveragePool": _pooled,
    "Conv": _conv,
    "Div": _div,
    "Gemm": _gemm,
    "GlobalAveragePool": _pooled,
    "GlobalMaxPool": _pooled,
    "LayerNormalization": _normalization,
    "LeakyRelu": same,
    "MatMul": _matmul,
    "MaxPool": _pooled,
    "Mul": _mul,
    "Pad": _padded,
    "Relu": same,
}
"""How a factor moves from a node's output to its inputs, by op type."""
