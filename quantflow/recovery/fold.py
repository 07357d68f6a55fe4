"""Where a scale of every channel of a tensor can come from: constants of the nodes that make it.

To divide channel k of a tensor by ``s[k]``, one goes back from it to weights, biases and factors in
which every path into the tensor can be divided instead. No node is added. The way leads through
what is linear in every channel (Add, Mul, Reshape, Transpose, Expand, the product with an attention
matrix), through what commutes with a positive factor (Relu, MaxPool, averages) and through parts of
fused layers (Split, Slice, Gather), whose other parts stay as they are; it ends at a layer, a
normalization's scale and bias, or any constant factor: at most one a path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import constant, static_shape
from quantflow.recovery.classes import Classes, Ids, narrowed
from quantflow.recovery.parts import Part, part_of


@dataclass(frozen=True, slots=True)
class Edit:
    """A constant that is divided by the scale.

    Attributes:
        node: name of the node that reads it.
        index: number of that input.
        ids: class of every element, broadcast to the constant; `Fold.rest` where it stays. Of a
            constant of fewer elements, it tells the shape that it takes.
    """

    node: str
    index: int
    ids: Ids


@dataclass(frozen=True, slots=True)
class Fold:
    """A way to divide the channels of a tensor.

    Attributes:
        classes: ``(K,)`` class of every channel, numbered from 0; channels of one class share a
            scale.
        edits: the constants to divide.
    """

    classes: Ids
    edits: tuple[Edit, ...]

    @property
    def rest(self) -> int:
        """Number of what stays as it is: one beyond the last class."""
        return int(self.classes.max()) + 1


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
    """How several values can be divided whose elements are of common classes.

    Args:
        sides: values of a static model, and the classes of their elements, broadcast to them; every
            value has all classes, numbered from 0.
        readers: names of the nodes that make up for the scale.
    """
    count = int(sides[0][1].max()) + 1
    walk = _Walk(Classes.of(count + 1), rest=count)
    ways = list[list[Edit]]()
    for value, ids in sides:
        if value.is_graph_output() or not _read_only_by(value, readers):
            return None
        edits = walk.back(value, ids)
        if edits is None:
            return None
        ways.append(edits)
    roots = walk.classes.roots()
    if (roots[:count] == roots[count]).any():
        return None
    _, classes = np.unique(roots, return_inverse=True)
    return tuple(
        Fold(classes[:count], tuple(Edit(x.node, x.index, classes[x.ids]) for x in edits))
        for edits in ways
    )


def _read_only_by(value: ir.Value, readers: frozenset[str]) -> bool:
    return all(str(use.node.name) in readers for use in value.uses())


Edits = list[Edit] | None


@dataclass(slots=True)
class _Walk:
    """One way back.

    Attributes:
        classes: of the tensor's channels, made one as the way asks for it.
        rest: the last class, of what stays as it is.
    """

    classes: Classes
    rest: int

    def back(self, value: ir.Value, ids: Ids) -> Edits:
        """The edits that divide a value, whose elements are of the classes `ids`."""
        node = value.producer()
        if node is None or constant(value) is not None:
            return None
        part = part_of(value)
        if part is not None:
            return self.part(value, part, ids)
        if value is not node.outputs[0]:
            return None
        rule = _RULES.get(node.op_type)
        return rule(self, node, ids) if rule is not None and not node.domain else None

    def input(self, node: ir.Node, index: int, ids: Ids) -> Edits:
        """The same of a node's input, which nothing else may read."""
        value = node.inputs[index]
        if value is None or value.is_graph_output() or len(list(value.uses())) != 1:
            return None
        return self.back(value, ids)

    def part(self, value: ir.Value, part: Part, ids: Ids) -> Edits:
        """The same of a value that a part is taken of, if all that read it take other parts."""
        node = value.producer()
        whole = node.inputs[0] if node is not None else None
        if whole is None or whole.is_graph_output():
            return None
        others = [x for use in whole.uses() for x in use.node.outputs if x is not value]
        if not others and part.is_uniform(ids):  # nobody reads the rest: it may be scaled as well
            return self.back(whole, part.with_axis(ids))
        found = [part_of(other) for other in others]
        if any(x is None or not x.beside(part) for x in found):
            return None
        return self.back(whole, part.in_whole(ids, self.rest))

    def fitted(self, ids: Ids, shape: Sequence[int]) -> Ids:
        """Classes of an operand that is broadcast to the shape that `ids` is of."""
        extra = ids.ndim - len(shape)
        for axis in range(ids.ndim):
            size = 1 if axis < extra else shape[axis - extra]
            if size == 1:
                ids = self.classes.one_along(ids, axis)
        return ids.reshape(ids.shape[extra:])


def _same(walk: _Walk, node: ir.Node, ids: Ids) -> Edits:
    """A positive factor may be applied before as well as after."""
    return walk.input(node, 0, ids)


def _pooled(walk: _Walk, node: ir.Node, ids: Ids) -> Edits:
    return walk.input(node, 0, ids) if _one_beside(ids, axis=1) else None


def _one_beside(ids: Ids, axis: int) -> bool:
    """Whether classes depend on nothing but one axis."""
    return all(size == 1 for i, size in enumerate(ids.shape) if i != axis % ids.ndim)


def _padded(walk: _Walk, node: ir.Node, ids: Ids) -> Edits:
    filler = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    zero = len(node.inputs) < 3 or (filler is not None and not np.any(filler.numpy()))
    pads = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if pads is None or (pads.numpy() < 0).any():  # which could move channels
        return None
    before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if before is None or after is None or ids.ndim < 2 or before[1] != after[1]:
        return None
    return _pooled(walk, node, ids) if zero else None


def _transpose(walk: _Walk, node: ir.Node, ids: Ids) -> Edits:
    order = node.attributes.get_ints("perm", tuple(reversed(range(ids.ndim))))
    return walk.input(node, 0, ids.transpose(np.argsort(order)))


def _reshape(walk: _Walk, node: ir.Node, ids: Ids) -> Edits:
    before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if before is None or after is None:
        return None
    return walk.input(node, 0, narrowed(np.broadcast_to(ids, after).reshape(before)))


def _expand(walk: _Walk, node: ir.Node, ids: Ids) -> Edits:
    before = static_shape(node.inputs[0])
    return None if before is None else walk.input(node, 0, walk.fitted(ids, before))


def _add(walk: _Walk, node: ir.Node, ids: Ids) -> Edits:
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


def _mul(walk: _Walk, node: ir.Node, ids: Ids) -> Edits:
    for index in (1, 0):
        if constant(node.inputs[index]) is not None:
            return [Edit(str(node.name), index, ids)]
    before, best, classes = walk.classes, None, walk.classes
    for index in (1, 0):
        shape = static_shape(node.inputs[index])
        if shape is None:
            continue
        walk.classes = Classes(before.parent.copy())
        edits = walk.input(node, index, walk.fitted(ids, shape))
        # The operand that leaves channels most of their freedom: one may be a factor a row.
        if edits is not None and (best is None or walk.classes.count() > classes.count()):
            best, classes = edits, walk.classes
    walk.classes = classes
    return best


def _div(walk: _Walk, node: ir.Node, ids: Ids) -> Edits:
    if constant(node.inputs[0]) is not None:
        return [Edit(str(node.name), 0, ids)]
    shape = static_shape(node.inputs[0])
    return None if shape is None else walk.input(node, 0, walk.fitted(ids, shape))


def _normalization(_: _Walk, node: ir.Node, ids: Ids) -> Edits:
    parameters = [index for index in range(1, len(node.inputs)) if node.inputs[index] is not None]
    if any(constant(node.inputs[index]) is None for index in parameters):
        return None
    last = node.attributes.get_int("axis", -1) in (-1, ids.ndim - 1)
    if not last or not _one_beside(ids, axis=-1):
        return None
    return [Edit(str(node.name), index, ids.reshape(-1)) for index in parameters]


def _matmul(walk: _Walk, node: ir.Node, ids: Ids) -> Edits:
    right, shape = constant(node.inputs[1]), static_shape(node.inputs[1])
    if shape is None:
        return None
    if right is not None:  # a layer: its columns
        if not _one_beside(ids, axis=-1) or len(shape) != 2:
            return None
        return [Edit(str(node.name), 1, ids.reshape(1, -1))]
    # Rows of the right operand are mixed, as by attention; its columns are not.
    left = static_shape(node.inputs[0])
    if left is None or len(left) < 2 or len(shape) < 2 or ids.shape[-2] != 1:
        return None
    # The rows are the product's inner dimension here, and of size 1 in `ids`.
    fitted = walk.fitted(ids, [*shape[:-2], 2, shape[-1]])
    return walk.input(node, 1, fitted)


def _gemm(_: _Walk, node: ir.Node, ids: Ids) -> Edits:
    if constant(node.inputs[1]) is None or node.attributes.get_int("transB", 0):
        return None
    if not _one_beside(ids, axis=-1):
        return None
    return _with_bias(node, [Edit(str(node.name), 1, ids.reshape(1, -1))], ids.reshape(-1))


def _conv(_: _Walk, node: ir.Node, ids: Ids) -> Edits:
    shape = static_shape(node.inputs[1])
    if constant(node.inputs[1]) is None or shape is None or not _one_beside(ids, axis=1):
        return None
    rows = ids.reshape(-1, *(1,) * (len(shape) - 1))
    return _with_bias(node, [Edit(str(node.name), 1, rows)], ids.reshape(-1))


def _with_bias(node: ir.Node, edits: list[Edit], ids: Ids) -> Edits:
    bias = (*node.inputs, None)[2]
    if bias is None:
        return edits
    return [*edits, Edit(str(node.name), 2, ids)] if constant(bias) is not None else None


_RULES: dict[str, Callable[[_Walk, ir.Node, Ids], Edits]] = {
    "Add": _add,
    "AveragePool": _pooled,
    "Conv": _conv,
    "Div": _div,
    "Dropout": _same,
    "Expand": _expand,
    "Flatten": _reshape,
    "Gemm": _gemm,
    "GlobalAveragePool": _pooled,
    "GlobalMaxPool": _pooled,
    "Identity": _same,
    "LayerNormalization": _normalization,
    "LeakyRelu": _same,
    "MatMul": _matmul,
    "MaxPool": _pooled,
    "Mul": _mul,
    "Pad": _padded,
    "Relu": _same,
    "Reshape": _reshape,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}
"""How a factor moves from a node's output to its inputs, by op type."""
