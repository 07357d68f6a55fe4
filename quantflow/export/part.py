"""A part of a model between some values, in time that depends on the part and not on the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from quantflow.errors import fail
from quantflow.graph.edit import constant, nodes_by_name, opset, values_by_name


@dataclass(frozen=True, slots=True)
class Whole:
    """A model whose values and nodes are found by name."""

    model: ir.Model
    nodes: Mapping[str, ir.Node]
    values: Mapping[str, ir.Value]

    @classmethod
    def of(cls, model: ir.Model) -> Whole:
        """Look the names up once."""
        return cls(model, nodes_by_name(model), values_by_name(model))


def part_between(whole: Whole, inputs: Sequence[str], outputs: Sequence[str]) -> ir.Model:
    """The nodes that compute `outputs` from `inputs`, as a model. Weights are shared, not copied.

    Nodes with bodies are not for this: the values that a body reads are not followed.

    Raises:
        QuantflowError: QF543 when an output depends on anything but `inputs` and constants.
    """
    copies = {whole.values[name]: _copy(whole.values[name]) for name in inputs}
    entries = list(copies.values())
    nodes = list[ir.Node]()
    constants = list[ir.Value]()
    for node in _needed(whole, set(copies), outputs):
        for value in node.inputs:
            if value is not None and constant(value) is not None and value not in copies:
                copies[value] = _copy(value)
                constants.append(copies[value])
        results = [_copy(value) for value in node.outputs]
        copies.update(zip(node.outputs, results, strict=True))
        read = [None if value is None else copies[value] for value in node.inputs]
        attributes = node.attributes.values()
        nodes.append(
            ir.Node(node.domain, node.op_type, read, attributes, name=node.name, outputs=results)
        )
    graph = ir.Graph(
        entries,
        [copies[whole.values[name]] for name in dict.fromkeys(outputs)],
        nodes=nodes,
        initializers=constants,
        opset_imports={"": opset(whole.model)},
        name="part",
    )
    return ir.Model(graph, ir_version=whole.model.ir_version)


def _needed(whole: Whole, given: set[ir.Value], outputs: Sequence[str]) -> list[ir.Node]:
    """What computes the outputs, producers before their readers."""
    done, order = set[ir.Node](), list[ir.Node]()
    waiting: list[tuple[ir.Value, bool]] = [(whole.values[name], False) for name in outputs]
    while waiting:
        value, ready = waiting.pop()
        node = value.producer()
        if value in given or constant(value) is not None or (node in done and not ready):
            continue
        if node is None:
            fail("QF543", f"{value.name!r} is not computed where a layer should be",
                 fix="rerun `quantflow export-onnx`")  # fmt: skip
        if ready:
            if node not in done:
                done.add(node)
                order.append(node)
            continue
        waiting.append((value, True))
        waiting.extend((source, False) for source in node.inputs if source is not None)
    return order


def _copy(value: ir.Value) -> ir.Value:
    return ir.Value(
        name=value.name, shape=value.shape, type=value.type, const_value=value.const_value
    )
