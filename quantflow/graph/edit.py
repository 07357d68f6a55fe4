"""Small edits that several passes share. None of them changes the model it is given."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from quantflow.errors import did_you_mean, fail


def copy_model(model: ir.Model) -> ir.Model:
    """A copy that may be changed freely; the weights themselves are shared."""
    return model.clone()


def values_by_name(model: ir.Model) -> dict[str, ir.Value]:
    """Every value of the main graph (inputs, initializers, node outputs) by name."""
    return {value.name: value for value in all_values(model.graph) if value.name}


def all_values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Every value of a graph, in graph order."""
    yield from graph.inputs
    yield from (value for value in graph.initializers.values() if not value.is_graph_input())
    for node in graph:
        yield from node.outputs


def nodes_by_name(model: ir.Model) -> dict[str, ir.Node]:
    """Every node of the main graph by name."""
    return {node.name: node for node in model.graph if node.name}


def with_outputs(model: ir.Model, names: Sequence[str], *, keep: bool = False) -> ir.Model:
    """A copy whose outputs are the named values; nodes that nothing needs are gone.

    Args:
        model: any model.
        names: values of the main graph.
        keep: keep the model's own outputs in front.
    """
    copy = copy_model(model)
    values = values_by_name(copy)
    outputs = list(copy.graph.outputs) if keep else []
    for name in names:
        if name not in values:
            fail("QF204", f"no value {name!r} in the graph", fix=did_you_mean(name, values))
        if values[name] not in outputs:
            outputs.append(values[name])
    copy.graph.outputs[:] = outputs
    _prune(copy)
    return copy


def fresh_name(base: str, taken: Container[str]) -> str:
    """`base`, or `base` with the first number that makes it new."""
    if base not in taken:
        return base
    number = 1
    while f"{base}_{number}" in taken:
        number += 1
    return f"{base}_{number}"


def opset(model: ir.Model) -> int:
    """Version of the ai.onnx opset that the model imports."""
    return model.opset_imports[""]


def replace_node(node: ir.Node, tape: ir.tape.Tape, *results: ir.Value) -> None:
    """Replace a node by the nodes of `tape`, which give a result for each output that is read.

    The new nodes are named after the old one, and the results take over its outputs' names.
    """
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    for new in tape.nodes:
        new.name = f"{node.name}/{new.op_type}" if node.name else None
    for initializer in tape.initializers:
        initializer.name = fresh_name(str(initializer.name), graph.initializers)
        graph.register_initializer(initializer)
    ir.convenience.replace_nodes_and_values(
        graph, node, [node], list(tape.nodes), node.outputs[: len(results)], list(results)
    )


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor behind a value that is an initializer, else None."""
    if value is None or value.is_graph_input():
        return None
    return value.const_value


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """Sizes of a value whose shape is known and has no free dimension, else None."""
    shape = value.shape if value is not None else None
    return tuple(shape.numpy()) if shape is not None and shape.is_static() else None


def give_constant(node: ir.Node, index: int, tensor: ir.TensorProtocol) -> None:
    """Give a node a constant of its own for an input, for others may read the one it had."""
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    name = fresh_name(str(tensor.name), graph.initializers)
    tensor.name = name
    value = ir.val(name, const_value=tensor)
    graph.register_initializer(value)
    node.replace_input_with(index, value)


def cut_between(model: ir.Model, inputs: Sequence[str], outputs: Sequence[str]) -> ir.Model:
    """The part of a model between some values: a copy that reads `inputs` and gives `outputs`.

    Args:
        model: any model.
        inputs: values that become graph inputs, whatever computed them before.
        outputs: values that depend on nothing but `inputs` and constants. One that is an input as
            well is computed all the same, and called ``<name>/before``.
    """
    copy = copy_model(model)
    values = values_by_name(copy)
    results = [values[name] for name in outputs]
    # A value that is an output of its graph refuses to be replaced.
    copy.graph.outputs.clear()
    graph_inputs = list[ir.Value]()
    for name in inputs:
        value = values[name]
        if not value.is_graph_input():
            fresh = ir.Value(name=f"{name}/cut", shape=value.shape, type=value.type)
            ir.convenience.replace_all_uses_with(value, fresh)
            value.name, fresh.name = f"{name}/before", name
            value = fresh
        graph_inputs.append(value)
    copy.graph.outputs.extend(results)
    copy.graph.inputs[:] = graph_inputs
    _prune(copy)
    return copy


def with_bodies(node: ir.Node) -> Iterator[ir.Node]:
    """A node and those of its bodies, which read what they like of the graph around an If."""
    yield node
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield from attribute.as_graph().all_nodes()


def _prune(model: ir.Model) -> None:
    """Remove all nodes that no output needs."""
    waiting, needed = list[ir.Value | None](model.graph.outputs), set[ir.Node]()
    while waiting:
        value = waiting.pop()
        node = value.producer() if value is not None else None
        if node is not None and node not in needed:
            needed.add(node)
            waiting.extend(value for inner in with_bodies(node) for value in inner.inputs)
    # Removing an If leaves the nodes of its bodies, and so what they read looks used.
    for node in (x for x in model.graph if x not in needed):
        for inner in with_bodies(node):
            for index in range(len(inner.inputs)):
                inner.replace_input_with(index, None)
    RemoveUnusedNodesPass()(model)
