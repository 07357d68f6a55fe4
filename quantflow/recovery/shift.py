"""Taking an addend off every channel of a tensor: whatever reads it makes up for that.

A tensor that reaches from 2 to 8 in one channel and from -9 to -3 in another takes a range of 17,
and of 6 once each channel's middle is gone (Outlier Suppression+, Wei et al. 2023). The addend
comes off a bias further up. A layer that reads the tensor gets it back, times its weight, in its
own bias; a sum that reads it, past a residual block, in a bias of what it is added to. No node is
added, and nothing that is computed changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layer
from quantflow.graph.edit import constant, nodes_by_name, static_shape
from quantflow.graph.kinds.gemm import is_plain
from quantflow.recovery.classes import Ids
from quantflow.recovery.rescale import (
    can_apply,
    constant_of,
    edit_constants,
    scaled_rows,
    set_constant,
)
from quantflow.recovery.walk import MOVES, Edit, Edits, Fold, Rule, Walk, find_ways, one_beside

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Shift:
    """A way to take an addend off every channel of a tensor.

    Attributes:
        source: the constants that the addend comes off.
        others: those that it is added to, in what the tensor is added to.
    """

    source: Fold
    others: tuple[Fold, ...]

    @property
    def classes(self) -> Ids:
        """``(K,)`` class of every channel; channels of one class have the same addend."""
        return self.source.classes


def find_shift(
    model: ir.Model, value: ir.Value, axis: int, layers: Sequence[Layer]
) -> Shift | None:
    """How a tensor can be shifted; None where it cannot.

    Args:
        model: canonical, whose constants would be changed.
        value: the tensor, of a bucket of the model.
        axis: of its channels.
        layers: that read it and have weights.
    """
    shape, nodes = static_shape(value), nodes_by_name(model)
    if shape is None or not all(_makes_up(nodes[layer.node], layer) for layer in layers):
        return None
    readers, others = {layer.node for layer in layers}, list[ir.Value]()
    for use in value.uses():
        if str(use.node.name) in readers:
            continue
        other = _added_to(value, use.node)
        if other is None or static_shape(other) != shape:
            return None
        others.append(other)
    readers |= {str(use.node.name) for use in value.uses()}
    axis %= len(shape)
    ids = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    found = find_ways([(x, ids) for x in (value, *others)], frozenset(readers), _RULES)
    if found is None or not all(can_apply(model, way) for way in found):
        return None
    return Shift(found[0], found[1:])


def apply_shift(model: ir.Model, shift: Shift, layers: Sequence[Layer], addend: Floats) -> None:
    """Take an addend off a tensor's channels, in place; what the model computes stays the same.

    Args:
        model: canonical.
        shift: found in a bucket of it.
        layers: that read the tensor.
        addend: ``(K,)`` float32, equal for channels of one class.
    """
    nodes = nodes_by_name(model)
    edit_constants(model, shift.source, np.add, -addend, idle=0.0)
    for other in shift.others:
        edit_constants(model, other, np.add, addend, idle=0.0)
    for layer in layers:
        rows = scaled_rows(constant_of(nodes[layer.node], 1), layer, addend).astype(np.float64)
        columns = tuple(range(1, rows.ndim)) if layer.op_type == "Conv" else 0
        node, index = _bias_of(nodes[layer.bias_node or layer.node], layer)
        set_constant(model, node, index, constant_of(node, index) + rows.sum(axis=columns))


def _makes_up(node: ir.Node, layer: Layer) -> bool:
    """Whether a layer has a bias that what its weight makes of an addend can be added to."""
    if not layer.weight or layer.bias is None:
        return False
    if layer.op_type == "Conv":  # at a padded border it reads fewer addends
        pads = node.attributes.get_ints("pads", ())
        return not any(pads) and node.attributes.get_string("auto_pad", "NOTSET") == "NOTSET"
    return layer.op_type == "MatMul" or (layer.op_type == "Gemm" and is_plain(node))


def _bias_of(node: ir.Node, layer: Layer) -> tuple[ir.Node, int]:
    """The node that adds a layer's bias, and the number of that input."""
    (index,) = (i for i, x in enumerate(node.inputs) if x is not None and x.name == layer.bias)
    return node, index


def _added_to(value: ir.Value, node: ir.Node) -> ir.Value | None:
    """What an Add adds to a value, if nothing else reads that."""
    if node.op_type != "Add" or node.domain:
        return None
    others = [x for x in node.inputs if x is not value]
    return others[0] if len(others) == 1 and others[0] and len(others[0].uses()) == 1 else None


def _add(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    """One of the two takes the addend."""
    return walk.either(node, ids, (0, 1))


def _normalization(_: Walk, node: ir.Node, ids: Ids) -> Edits:
    last = node.attributes.get_int("axis", -1) in (-1, ids.ndim - 1)
    return _bias(node, ids.reshape(-1)) if last and one_beside(ids, axis=-1) else None


def _gemm(_: Walk, node: ir.Node, ids: Ids) -> Edits:
    return _bias(node, ids.reshape(-1)) if one_beside(ids, axis=-1) and is_plain(node) else None


def _conv(_: Walk, node: ir.Node, ids: Ids) -> Edits:
    return _bias(node, ids.reshape(-1)) if one_beside(ids, axis=1) else None


def _bias(node: ir.Node, ids: Ids) -> Edits:
    bias = (*node.inputs, None, None)[2]
    return [Edit(str(node.name), 2, ids)] if constant(bias) is not None else None


def _matmul(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    """Attention weighs rows by what adds up to 1, and so leaves an addend that all have alike."""
    left = node.inputs[0].producer() if node.inputs[0] is not None else None
    shape = static_shape(node.inputs[0])
    if left is None or shape is None or left.op_type != "Softmax" or left.domain:
        return None
    last = left.attributes.get_int("axis", -1) in (-1, len(shape) - 1)
    return walk.mixed(node, ids) if last and constant(node.inputs[1]) is None else None


_RULES: Final[dict[str, Rule]] = {
    **MOVES,
    "Add": _add,
    "Conv": _conv,
    "Gemm": _gemm,
    "LayerNormalization": _normalization,
    "MatMul": _matmul,
}
"""How an addend moves from a node's output to its inputs, by op type."""
