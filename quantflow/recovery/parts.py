"""Values that are a part of another value, as queries, keys and values of one fused layer are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import constant, static_shape
from quantflow.recovery.classes import Ids

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A range along one axis of another value.

    Attributes:
        axis: of the other value, from 0.
        start, stop: the range.
        size: of the whole axis.
        kept: whether the part still has the axis; Gather takes it away.
    """

    axis: int
    start: int
    stop: int
    size: int
    kept: bool

    def beside(self, other: Part) -> bool:
        """Whether the two have nothing in common."""
        apart = self.stop <= other.start or other.stop <= self.start
        return self.axis == other.axis and apart

    def with_axis(self, ids: Ids) -> Ids:
        """Classes of the part, with the axis of the whole."""
        return ids if self.kept else np.expand_dims(ids, self.axis)

    def is_uniform(self, ids: Ids) -> bool:
        """Whether the classes of the part are the same all along the axis."""
        return self.with_axis(ids).shape[self.axis] == 1

    def in_whole(self, ids: Ids, rest: int) -> Ids:
        """Classes of the whole value, where `ids` are those of the part.

        Args:
            ids: broadcast to the part.
            rest: class of all that is not in the part.
        """
        ids = self.with_axis(ids)
        shape = [self.size if i == self.axis else size for i, size in enumerate(ids.shape)]
        whole = np.full(shape, rest, np.int64)
        whole[(slice(None),) * self.axis + (slice(self.start, self.stop),)] = ids
        return whole


def part_of(value: ir.Value) -> Part | None:
    """What part a value is of its node's first input; None where it is not known to be one."""
    node = value.producer()
    rule = _RULES.get(node.op_type) if node is not None and not node.domain else None
    if node is None or rule is None:
        return None
    shape = static_shape(node.inputs[0])
    return rule(node, value, shape) if shape is not None else None


def _split(node: ir.Node, value: ir.Value, shape: Shape) -> Part | None:
    axis = node.attributes.get_int("axis", 0) % len(shape)
    start = 0
    for output in node.outputs:
        part = static_shape(output)
        if part is None:
            return None
        stop = start + part[axis]
        if output is value:
            return Part(axis, start, stop, shape[axis], kept=True)
        start = stop
    return None


def _slice(node: ir.Node, _: ir.Value, shape: Shape) -> Part | None:
    starts, ends, axes, steps = (_integers(x) for x in (*node.inputs, None, None)[1:5])
    if starts is None or ends is None or axes is None or len(axes) != 1:
        return None
    if len(node.inputs) > 4 and steps != [1]:
        return None
    axis = axes[0] % len(shape)
    start, stop = slice(starts[0], ends[0]).indices(shape[axis])[:2]
    return Part(axis, start, max(start, stop), shape[axis], kept=True)


def _integers(value: ir.Value | None) -> list[int] | None:
    """A constant's elements; None for what is no constant."""
    tensor = constant(value)
    return None if tensor is None else [int(x) for x in tensor.numpy().ravel()]


def _gather(node: ir.Node, _: ir.Value, shape: Shape) -> Part | None:
    index = constant(node.inputs[1])
    if index is None or index.numpy().ndim:
        return None
    axis = node.attributes.get_int("axis", 0) % len(shape)
    start = int(index.numpy()) % shape[axis]
    return Part(axis, start, start + 1, shape[axis], kept=False)


_RULES = {"Split": _split, "Slice": _slice, "Gather": _gather}
"""What part an output is, by op type of its node."""
