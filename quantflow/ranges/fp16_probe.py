"""A copy of a model that measures its own float tensors and returns nothing but scalars.

Reductions inside the graph mean that no activation leaves it, so that every tensor of a large model
can be watched in one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from quantflow.graph.edit import all_values, copy_model, fresh_name, nodes_by_name, values_by_name
from quantflow.numerics.rounding import FP16_FLUSH, FP16_SMALLEST_NORMAL

MEASURES = ("absmax", "all_finite", "subnormal", "flushed")
"""What is measured: largest finite magnitude; 1 when every value is finite, else 0; share of the
values that are non-zero and below the smallest normal fp16 value; share that are non-zero and
become zero."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A watched tensor.

    Attributes:
        tensor, node, op_type: the value and the node that writes it, empty for an input.
        outputs: name of the output of the instrumented model for each of `MEASURES`.
    """

    tensor: str
    node: str
    op_type: str
    outputs: Mapping[str, str]


def instrument(model: ir.Model) -> tuple[ir.Model, list[Probe]]:
    """A copy whose outputs are the measures of every float32 input and node output.

    Initializers are not watched, nor are values inside the bodies of If, Loop and Scan.

    Args:
        model: any model of opset 13 or above.

    Returns:
        The copy, and what it measures in graph order.
    """
    copy = copy_model(model)
    if any(value.dtype is None for value in all_values(copy.graph)):
        copy = ShapeInferencePass()(copy).model
    watched = [value for value in all_values(copy.graph) if _is_watched(value)]
    prefix = fresh_name("fp16_probe", [*values_by_name(copy), *nodes_by_name(copy)])
    limits = {
        name: _constant(copy, f"{prefix}/{name}", number)
        for name, number in {
            "zero": 0.0,
            "largest": float(np.finfo(np.float32).max),
            "normal": FP16_SMALLEST_NORMAL,
            "flush": FP16_FLUSH,
        }.items()
    }
    probes: list[Probe] = []
    measured: list[ir.Value] = []
    for index, value in enumerate(watched):
        nodes = list(_reductions(value, limits, f"{prefix}/{index}"))
        copy.graph.extend(nodes)
        named = {name: f"{prefix}/{index}/{name}" for name in MEASURES}
        found = {node.outputs[0].name: node.outputs[0] for node in nodes}
        measured += [found[name] for name in named.values()]
        writer = value.producer()
        node, op_type = (writer.name or "", writer.op_type) if writer else ("", "")
        probes.append(Probe(str(value.name), node, op_type, named))
    copy.graph.outputs[:] = measured
    return copy, probes


def _is_watched(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.FLOAT and not value.is_initializer() and bool(value.name)


def _constant(model: ir.Model, name: str, number: float) -> ir.Value:
    tensor = ir.tensor(np.array(number, np.float32), name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape([]))
    value.const_value = tensor
    model.graph.register_initializer(value)
    return value


def _reductions(value: ir.Value, limits: Mapping[str, ir.Value], prefix: str) -> Iterator[ir.Node]:
    """The nodes that measure one value; the last of each measure is named after it."""

    def node(name: str, op_type: str, inputs: Sequence[ir.Value], **attributes: int) -> ir.Node:
        output = ir.Value(name=f"{prefix}/{name}")
        return ir.node(
            op_type, inputs, attributes, outputs=[output], name=f"{prefix}/{name}_{op_type}"
        )

    def share(name: str, flags: ir.Value) -> Iterator[ir.Node]:
        # Without axes, ReduceMean reduces all of them, as an attribute (17) and as an input (18).
        yield (number := node(f"{name}_number", "Cast", [flags], to=ir.DataType.FLOAT))
        yield node(name, "ReduceMean", number.outputs, keepdims=0)

    yield (magnitude := node("magnitude", "Abs", [value]))
    x = magnitude.outputs[0]
    yield (finite := node("finite", "LessOrEqual", [x, limits["largest"]]))
    yield (kept := node("kept", "Where", [finite.outputs[0], x, limits["zero"]]))
    yield node("absmax", "ReduceMax", kept.outputs, keepdims=0)
    # A share would round to 1 when one value of many is not finite.
    yield (flag := node("finite_number", "Cast", finite.outputs, to=ir.DataType.FLOAT))
    yield node("all_finite", "ReduceMin", flag.outputs, keepdims=0)
    yield (filled := node("filled", "Greater", [x, limits["zero"]]))
    yield (small := node("small", "Less", [x, limits["normal"]]))
    yield (subnormal := node("both", "And", [filled.outputs[0], small.outputs[0]]))
    yield from share("subnormal", subnormal.outputs[0])
    yield (tiny := node("tiny", "LessOrEqual", [x, limits["flush"]]))
    yield (gone := node("gone", "And", [filled.outputs[0], tiny.outputs[0]]))
    yield from share("flushed", gone.outputs[0])
