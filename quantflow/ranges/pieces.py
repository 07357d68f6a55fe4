"""A model in consecutive pieces, so that all that it computes can be looked at, a part at a time.

A piece ends where few bytes are on their way from one node to a later one, as between the blocks of
a transformer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.graph.edit import with_bodies

HANDED_ON = frozenset(
    {
        *(ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BOOL),
        *(ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64),
        *(ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64),
    }
)
"""Types of tensors that a session gives and another one takes: those that numpy has."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some consecutive nodes, by names of values.

    Attributes:
        reads: what it takes: inputs of the model, and what earlier pieces hand on.
        asked: what it computes of the values that are asked for.
        hands_on: what it computes that later pieces read.
    """

    reads: tuple[str, ...]
    asked: tuple[str, ...]
    hands_on: tuple[str, ...]


def pieces_of(
    model: ir.Model, asked: Collection[str], sizes: Mapping[str, int], limit: int
) -> list[Piece]:
    """Cut a model into pieces that compute no more than `limit` bytes of what is asked for.

    What follows from constants alone is left to every piece that reads it. A piece is larger where
    a single node is, or where something other than a tensor would have to be handed on.

    Args:
        model: with types.
        asked: names of values of the main graph.
        sizes: bytes of values, by name; those of one that is not named count as none.
        limit: bytes.
    """
    flow = _Flow.of(model)
    bulk = [
        sum(sizes.get(str(x.name), 0) for x in node.outputs if x.name in asked)
        for node in flow.nodes
    ]
    cuts = _cuts(np.cumsum([0, *bulk]), flow.crossing(sizes), limit)
    pieces = [flow.piece(*ends, asked) for ends in pairwise([0, *cuts, len(flow.nodes)])]
    return [piece for piece in pieces if piece.asked or piece.hands_on]


@dataclass(frozen=True, slots=True)
class _Flow:
    """Which node reads what.

    Attributes:
        nodes: N nodes in graph order.
        reads: what each reads, bodies included, but for what follows from constants.
        written: number of the node that writes a value, -1 for an input of the model.
        last: number of the last node that reads a value.
    """

    nodes: Sequence[ir.Node]
    reads: Sequence[Sequence[ir.Value]]
    written: Mapping[ir.Value, int]
    last: Mapping[ir.Value, int]

    @classmethod
    def of(cls, model: ir.Model) -> _Flow:
        nodes, reads = list(model.graph), list[list[ir.Value]]()
        written = {value: -1 for value in model.graph.inputs if not value.is_initializer()}
        last = dict[ir.Value, int]()
        for number, node in enumerate(nodes):
            inputs = (value for inner in with_bodies(node) for value in inner.inputs)
            reads.append([x for x in dict.fromkeys(inputs) if x is not None and x in written])
            last |= dict.fromkeys(reads[-1], number)
            if reads[-1]:
                written |= dict.fromkeys(node.outputs, number)
        return cls(nodes, reads, written, last)

    def crossing(self, sizes: Mapping[str, int]) -> NDArray[np.float64]:
        """Bytes to hand on were there a cut before each node, ``(N + 1,)``; inf where none can."""
        taken, barred = np.zeros((2, len(self.nodes) + 2))
        for value, last in self.last.items():
            if (first := self.written[value]) >= 0:
                size = sizes.get(str(value.name), 0)
                change, by = (taken, size) if _is_handed_on(value) else (barred, 1)
                change[first + 1] += by
                change[last + 1] -= by
        return np.where(np.cumsum(barred) > 0, np.inf, np.cumsum(taken))[:-1]

    def piece(self, start: int, end: int, asked: Collection[str]) -> Piece:
        """The nodes from one number up to another."""
        outputs = [value for node in self.nodes[start:end] for value in node.outputs]
        reads = (x for some in self.reads[start:end] for x in some if self.written[x] < start)
        return Piece(
            reads=_names(reads),
            asked=_names(value for value in outputs if value.name in asked),
            hands_on=_names(value for value in outputs if self.last.get(value, -1) >= end),
        )


def _is_handed_on(value: ir.Value) -> bool:
    return isinstance(value.type, ir.TensorType) and value.dtype in HANDED_ON


def _names(values: Iterable[ir.Value]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(value.name) for value in values))


def _cuts(below: NDArray[np.int64], crossing: NDArray[np.float64], limit: int) -> list[int]:
    """Numbers of the nodes that pieces begin with, but for the first.

    Args:
        below: ``(N + 1,)`` bytes asked for of the nodes before each.
        crossing: ``(N + 1,)`` what a cut there costs, inf where none is possible.
        limit: bytes of a piece.
    """
    cuts, start = list[int](), 0
    while below[-1] - below[start] > limit:
        # From half of the limit on, so that pieces do not get many.
        reached = below - below[start]
        last = max(int(np.searchsorted(reached, limit, side="right")) - 1, start + 1)
        first = min(max(int(np.searchsorted(reached, limit // 2)), start + 1), last)
        if not np.isfinite(crossing[first : last + 1]).any():
            last = last + int(np.argmax(np.isfinite(crossing[last:])))
            first = last
        start = last - int(np.argmin(crossing[first : last + 1][::-1]))
        if start >= len(crossing) - 1:
            break
        cuts.append(start)
    return cuts
