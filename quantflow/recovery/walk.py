"""The way back from a tensor to constants that its channels can be changed in.

Every channel starts with a class of its own; where the way asks for equal channels their classes
become one. What changes constants (a factor, an addend) has rules of its own by op type; what only
moves elements about (Reshape, Transpose, Expand, parts of fused layers) is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import constant, static_shape
from quantflow.recovery.classes import Classes, Ids, narrowed
from quantflow.recovery.parts import Part, part_of


@dataclass(frozen=True, slots=True)
class Edit:
    """A constant that is changed.

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
    """A way to change the channels of a tensor.

    Attributes:
        classes: ``(K,)`` class of every channel, numbered from 0; channels of one class are
            changed alike.
        edits: the constants to change.
    """

    classes: Ids
    edits: tuple[Edit, ...]

    @property
    def rest(self) -> int:
        """Number of what stays as it is: one beyond the last class."""
        return int(self.classes.max()) + 1


Edits = list[Edit] | None
Rule = Callable[["Walk", ir.Node, Ids], Edits]
"""Moves a change from a node's output, of classes `Ids`, to its inputs."""


def find_ways(
    sides: Sequence[tuple[ir.Value, Ids]], readers: frozenset[str], rules: Mapping[str, Rule]
) -> tuple[Fold, ...] | None:
    """How several values can be changed whose elements are of common classes; None if not all can.

    Args:
        sides: values of a static model, and the classes of their elements, broadcast to them; every
            value has all classes, numbered from 0.
        readers: names of the nodes that make up for the change.
        rules: by op type.
    """
    count = int(sides[0][1].max()) + 1
    walk = Walk(Classes.of(count + 1), rest=count, rules=rules)
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


@dataclass(slots=True)
class Walk:
    """One way back.

    Attributes:
        classes: of the tensor's channels, made one as the way asks for it.
        rest: the last class, of what stays as it is.
        rules: by op type.
    """

    classes: Classes
    rest: int
    rules: Mapping[str, Rule]

    def back(self, value: ir.Value, ids: Ids) -> Edits:
        """The edits that change a value, whose elements are of the classes `ids`."""
        node = value.producer()
        if node is None or constant(value) is not None:
            return None
        part = part_of(value)
        if part is not None:
            return self.part(value, part, ids)
        if value is not node.outputs[0]:
            return None
        rule = self.rules.get(node.op_type)
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

    def either(self, node: ir.Node, ids: Ids, order: tuple[int, int]) -> Edits:
        """The same of one of two operands: a constant, or else the one that leaves channels most of
        their freedom; of equals the first in the order."""
        for index in order:
            if constant(node.inputs[index]) is not None:
                return [Edit(str(node.name), index, ids)]
        before, best, classes = self.classes, None, self.classes
        for index in order:
            shape = static_shape(node.inputs[index])
            if shape is None:
                continue
            self.classes = Classes(before.parent.copy())
            edits = self.input(node, index, self.fitted(ids, shape))
            if edits is not None and (best is None or self.classes.count() > classes.count()):
                best, classes = edits, self.classes
        self.classes = classes
        return best

    def mixed(self, node: ir.Node, ids: Ids) -> Edits:
        """The same of a product with a matrix that mixes the rows of its right operand, as
        attention does; columns are not mixed."""
        left, shape = static_shape(node.inputs[0]), static_shape(node.inputs[1])
        if left is None or shape is None or len(left) < 2 or len(shape) < 2 or ids.shape[-2] != 1:
            return None
        # The rows are the product's inner dimension here, and of size 1 in `ids`.
        return self.input(node, 1, self.fitted(ids, [*shape[:-2], 2, shape[-1]]))


def one_beside(ids: Ids, axis: int) -> bool:
    """Whether classes depend on nothing but one axis."""
    return all(size == 1 for i, size in enumerate(ids.shape) if i != axis % ids.ndim)


def same(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    """A change of channels may come before as well as after."""
    return walk.input(node, 0, ids)


def _transpose(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    order = node.attributes.get_ints("perm", tuple(reversed(range(ids.ndim))))
    return walk.input(node, 0, ids.transpose(np.argsort(order)))


def _reshape(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if before is None or after is None:
        return None
    return walk.input(node, 0, narrowed(np.broadcast_to(ids, after).reshape(before)))


def _expand(walk: Walk, node: ir.Node, ids: Ids) -> Edits:
    before = static_shape(node.inputs[0])
    return None if before is None else walk.input(node, 0, walk.fitted(ids, before))


MOVES: Final[dict[str, Rule]] = {
    "Dropout": same,
    "Expand": _expand,
    "Flatten": _reshape,
    "Identity": same,
    "Reshape": _reshape,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}
"""Rules of what only moves elements about."""
