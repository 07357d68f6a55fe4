"""fp16 execution, emulated in float32.

A chip that runs a network in fp16 rounds every tensor that goes from one node to the next, and
accumulates inside a node in float32. Here every float tensor passes through a pair of Casts, to
fp16 and back, while the nodes themselves stay float32. An fp16 graph would not do: onnxruntime's
CPU provider keeps float32 between its nodes, so that an overflow stays unseen.

onnxruntime keeps the pairs at every optimization level, and its Cast gives infinity beyond 65504;
the tests assert both, since the emulation rests on them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import ShapeInferencePass

from quantflow.artifacts.weight_file import array_of, derived
from quantflow.errors import fail
from quantflow.graph.edit import all_values, copy_model, fresh_name
from quantflow.numerics.rounding import round_fp16

SELECTING_OPS = frozenset({
    "Abs", "Clip", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements",
    "GatherND", "Identity", "Max", "MaxPool", "Min", "Neg", "Pad", "ReduceMax", "ReduceMin", "Relu",
    "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose",
    "Unsqueeze", "Where",
})  # fmt: skip
"""Operators whose every result is one of their operands (or its negative, or zero): from fp16
operands they yield fp16 values, so that their outputs need no rounding of their own."""


def emulate_fp16(model: ir.Model, islands: frozenset[str]) -> ir.Model:
    """A float32 copy of `model` that computes as fp16 hardware does.

    Every float32 node output outside the islands is rounded to fp16; the rounded tensor has the
    old name. Float inputs, constants and the outputs of islands are rounded where a node outside
    the islands reads them, while islands read them as they are. Nodes of If bodies count too.

    Args:
        model: a float32 model; other element types are left alone. Nodes of no standard operator
            (AscendQuant, AscendDequant) are fine as long as their outputs' types are known.
        islands: names of the nodes that run in fp32.

    Raises:
        QuantflowError: QF541 when the element type of a value is unknown.
    """
    copy = copy_model(model)
    _know_types(copy)
    taken = {value.name or "" for graph in copy.graphs() for value in all_values(graph)}
    taken |= {node.name or "" for node in copy.graph.all_nodes()}
    for graph in list(copy.graphs()):
        for value in list(all_values(graph)):
            if value.dtype == ir.DataType.FLOAT:
                _round(value, graph, islands, taken)
    return copy


def _know_types(model: ir.Model) -> None:
    def unknown() -> list[str]:
        return [
            value.name or ""
            for graph in model.graphs()
            for value in all_values(graph)
            if value.dtype is None and value.name
        ]

    if unknown():
        ShapeInferencePass()(model)
    if names := unknown():
        fail(
            "QF541",
            f"the element type of {names[0]!r} is unknown ({len(names)} such values)",
            fix="run shape inference on the model, or declare the type in value_info",
        )


def _round(value: ir.Value, graph: ir.Graph, islands: frozenset[str], taken: set[str]) -> None:
    """Make the readers of `value` that are no islands read it rounded."""
    producer = value.producer()
    if producer is not None and producer.name not in islands:
        if producer.op_type not in SELECTING_OPS:
            _round_output(value, producer, graph, taken)
        return
    narrow = [use for use in value.uses() if use.node.name not in islands]
    if not narrow:
        return
    if producer is None and value.const_value is not None and not value.is_graph_input():
        rounded = _rounded_constant(value, graph, taken, alone=len(narrow) == len(value.uses()))
    else:
        name = _fresh(f"{value.name}/fp16", taken)
        pair, rounded = _cast_pair(value, name, taken)
        if producer is not None:
            graph.insert_after(producer, pair)
        else:
            graph.insert_before(graph[0], pair)
    for use in narrow:
        use.node.replace_input_with(use.idx, rounded)


def _round_output(value: ir.Value, producer: ir.Node, graph: ir.Graph, taken: set[str]) -> None:
    """Round the output of an fp16 node for all readers; the rounded value takes the name."""
    name = str(value.name)
    readers = list(value.uses())
    value.name = _fresh(f"{name}/fp32", taken)
    pair, rounded = _cast_pair(value, name, taken)
    graph.insert_after(producer, pair)
    for use in readers:
        use.node.replace_input_with(use.idx, rounded)
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = rounded


def _cast_pair(value: ir.Value, name: str, taken: set[str]) -> tuple[Sequence[ir.Node], ir.Value]:
    """The Casts to fp16 and back, and the rounded value, called `name`."""
    half, full = ir.DataType.FLOAT16, ir.DataType.FLOAT
    narrow = ir.node("Cast", [value], {"to": half.value}, name=_fresh(f"{name}/narrow", taken))
    narrow.outputs[0].name = _fresh(f"{name}/half", taken)
    narrow.outputs[0].type = ir.TensorType(half)
    widen = ir.node("Cast", narrow.outputs, {"to": full.value}, name=_fresh(f"{name}/widen", taken))
    rounded = widen.outputs[0]
    rounded.name = name
    rounded.type = ir.TensorType(full)
    if value.shape is not None:
        narrow.outputs[0].shape, rounded.shape = value.shape.copy(), value.shape.copy()
    return [narrow, widen], rounded


def _rounded_constant(
    value: ir.Value, graph: ir.Graph, taken: set[str], *, alone: bool
) -> ir.Value:
    """`value` rounded: itself when no island reads it, else a new initializer beside it."""
    assert value.const_value is not None
    exact = value.const_value

    def half() -> NDArray[np.float32]:
        return round_fp16(np.asarray(array_of(exact), np.float32))

    replaced = alone and not value.is_graph_output()
    name = str(value.name) if replaced else _fresh(f"{value.name}/fp16", taken)
    tensor = derived(name, half, ir.DataType.FLOAT, exact.shape.numpy())
    if replaced:
        value.const_value = tensor
        return value
    rounded = ir.Value(
        name=name,
        shape=value.shape,
        type=ir.TensorType(ir.DataType.FLOAT),
        const_value=tensor,
    )
    graph.register_initializer(rounded)
    return rounded


def _fresh(base: str, taken: set[str]) -> str:
    name = fresh_name(base, taken)
    taken.add(name)
    return name
