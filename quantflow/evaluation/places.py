"""Where two sides are compared: outputs of layers, boundaries of blocks, outputs of the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import onnx_ir as ir

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.side_by_side import PlaceKind
from quantflow.graph.edit import values_by_name
from quantflow.graph.segments import find_segments

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor that is compared, and as what.

    Attributes:
        name: of the layer or output, else the tensor's.
        kind: what it is.
        tensor: name of the value.
        node, op_type: what computes it in the float model; empty for dumps.
        position: of that node in graph order.
    """

    name: str
    kind: PlaceKind
    tensor: str
    node: str = ""
    op_type: str = ""
    position: int = 0

    @property
    def module(self) -> str:
        """Path of the module that the node belongs to, as far as its name says so."""
        scope, separator, _ = self.node.rpartition("/")
        if separator:
            return scope.strip("/")
        return self.node if "." in self.node else ""


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of the float graph between two boundaries.

    Attributes:
        number: from 0.
        tensors: the float values that are computed in it, in graph order.
    """

    number: int
    tensors: tuple[Place, ...]


def places_of(model: ir.Model, record: ModelRecord) -> list[Place]:
    """All places of a float model in graph order; an output comes after what else it is.

    Args:
        model: a bucket of it.
        record: its layers and outputs.
    """
    made = _made(model)
    named = [(layer.name, "layer", layer.output) for layer in record.layers]
    boundaries = [x for names in _boundaries(model, record)[:-1] for x in names]
    outputs = [info.name for info in record.outputs]
    taken = {tensor for _, _, tensor in named} | set(outputs)
    found = [_place(name, "layer", made[x]) for name, _, x in named if x in made]
    found += [
        _place(x, "block", made[x])
        for x in dict.fromkeys(boundaries)
        if x not in taken and x in made and _is_float(made[x][1])
    ]
    found += [_place(x, "output", made[x]) for x in outputs if x in made]
    return sorted(found, key=lambda x: (x.position, x.kind == "output"))


def values_of(model: ir.Model) -> list[Place]:
    """Every value that a node of a float model computes, in graph order, as a mere tensor."""
    return [_place(name, "tensor", made) for name, made in _made(model).items()]


def blocks_of(model: ir.Model, record: ModelRecord) -> list[Block]:
    """The blocks of a float model, each with every float value that is computed in it."""
    made = _made(model)
    ends = [-1]
    for names in _boundaries(model, record):
        ends.append(max([ends[-1], *(made[x][0] for x in names if x in made)]))
    values = [x for x in made.values() if _is_float(x[1])]
    return [
        Block(
            number,
            tuple(_place(str(x[1].name), "block", x) for x in values if start < x[0] <= end),
        )
        for number, (start, end) in enumerate(pairwise(ends))
    ]


_Made = tuple[int, ir.Value]
"""A value and the position of the node that makes it."""


def _made(model: ir.Model) -> dict[str, _Made]:
    nodes = enumerate(model.graph)
    return {str(value.name): (i, value) for i, node in nodes for value in node.outputs}


def _boundaries(model: ir.Model, record: ModelRecord) -> list[Sequence[str]]:
    """What each block gives to later ones; the last one gives the model's outputs."""
    outputs = [str(value.name) for value in model.graph.outputs]
    if not record.groups:  # without layers there is nothing to cut in front of
        return [outputs]
    return [segment.outputs for segment in find_segments(model, record)]


def _place(name: str, kind: PlaceKind, made: _Made) -> Place:
    position, value = made
    node = value.producer()
    assert node is not None
    return Place(name, kind, str(value.name), node.name or "", node.op_type, position)


def _is_float(value: ir.Value) -> bool:
    return value.dtype is None or value.dtype in _FLOATS


def computed(model: ir.Model, names: Iterable[str]) -> list[str]:
    """Those of some values that a node of the model computes, each once."""
    values = values_by_name(model)
    there = (x for x in dict.fromkeys(names) if x in values)
    return [name for name in there if values[name].producer() is not None]
