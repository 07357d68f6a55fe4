"""Cutting a static model at block boundaries, so that what comes before is never recomputed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import onnx_ir as ir

from quantflow.artifacts.model_record import ModelRecord
from quantflow.graph.edit import cut_between, with_bodies

CARRIED_GROUPS = 6
"""A value that lives past the starts of more groups than this (masks, rotary tables) is carried
along whatever the cut, and does not speak against one."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the graph.

    Attributes:
        inputs: values it reads: graph inputs and values of earlier segments.
        outputs: values it makes for later segments, or the model's outputs.
        groups: names of the groups whose layers lie in it.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    groups: tuple[str, ...]


def find_segments(model: ir.Model, record: ModelRecord) -> list[Segment]:
    """Cut where the fewest values cross, at most once before each group and never inside one.

    Only values that depend on the model's inputs count: constants are part of every segment that
    reads them.

    Args:
        model: a static model, nodes in topological order.
        record: its groups.

    Returns:
        Segments in order. Together they compute the model.
    """
    nodes = list(model.graph)
    crossing = _crossing(model, nodes)
    first, last = _span_of_groups(nodes, record)
    carried = _carried(crossing, sorted(first.values()))
    counts = [sum(name not in carried for name in names) for names in crossing]
    cuts = _choose_cuts(counts, first, last)
    cuts = [0, *cuts, len(nodes)]
    names = [str(value.name) for value in model.graph.inputs]
    segments = list[Segment]()
    for start, end in pairwise(cuts):
        reads = tuple(names) if start == 0 else tuple(crossing[start])
        gives = crossing[end] if end < len(nodes) else [str(v.name) for v in model.graph.outputs]
        made = tuple(name for name in gives if name not in reads)
        inside = tuple(group.name for group in record.groups if start <= first[group.name] < end)
        segments.append(Segment(reads, made, inside))
    return segments


def segment_model(model: ir.Model, segment: Segment) -> ir.Model:
    """The part of `model` that a segment covers."""
    return cut_between(model, segment.inputs, segment.outputs)


def _crossing(model: ir.Model, nodes: Sequence[ir.Node]) -> list[list[str]]:
    """For every position, the values that live across it, in order of their making."""
    position = {inner: index for index, node in enumerate(nodes) for inner in with_bodies(node)}
    inputs = list(model.graph.inputs)
    made: list[tuple[int, ir.Value]] = [(-1, value) for value in inputs]
    made += [(index, value) for index, node in enumerate(nodes) for value in node.outputs]
    crossing: list[list[str]] = [[] for _ in range(len(nodes) + 1)]
    for born, value in made:
        uses = [position[use.node] for use in value.uses() if use.node in position]
        dies = len(nodes) if value.is_graph_output() else max(uses, default=born)
        for index in range(born + 1, dies + 1):
            crossing[index].append(str(value.name))
    return crossing


def _span_of_groups(
    nodes: Sequence[ir.Node], record: ModelRecord
) -> tuple[dict[str, int], dict[str, int]]:
    """First and last position of every group's nodes, the adding of the bias included."""
    position = {node.name: index for index, node in enumerate(nodes)}
    first, last = dict[str, int](), dict[str, int]()
    layers = {layer.name: layer for layer in record.layers}
    for group in record.groups:
        members = [layers[name] for name in group.layers]
        places = [position[name] for x in members for name in (x.node, x.bias_node) if name]
        first[group.name], last[group.name] = min(places), max(places)
    return first, last


def _carried(crossing: Sequence[Sequence[str]], starts: Sequence[int]) -> set[str]:
    counts = Counter(name for start in starts for name in crossing[start])
    return {name for name, count in counts.items() if count > CARRIED_GROUPS}


def _choose_cuts(counts: Sequence[int], first: dict[str, int], last: dict[str, int]) -> list[int]:
    """Of the positions that the fewest values cross, the last one before each group.

    A position inside a group, between two layers that read one tensor, is none.
    """
    starts = sorted(first.values())
    inside = {i for name, start in first.items() for i in range(start + 1, last[name] + 1)}
    inner = [i for i in range(starts[0] + 1, starts[-1] + 1) if i not in inside]
    least = min((counts[i] for i in inner), default=0)
    narrow = [i for i in inner if counts[i] == least]
    nearest = (max((i for i in narrow if i <= start), default=None) for start in starts)
    return sorted({i for i in nearest if i is not None})
