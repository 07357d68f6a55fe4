"""Rules about the graph as such: names, order, static shapes and control flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from quantflow.target.dialect import LintFinding, has_int8_layers, label, nodes_of


def control_flow(model: ir.Model) -> Iterator[LintFinding]:
    """Loop and Scan have no parser, and functions are not inlined by atc."""
    for node in nodes_of(model, "Loop", "Scan"):
        yield LintFinding(
            "error",
            "control-flow",
            f"{node.op_type} has no parser in atc",
            label(node),
            "export the model with the loop unrolled, or run it on the host",
        )
    for function in model.functions.values():
        yield LintFinding(
            "error",
            "functions",
            "the model holds a function of its own",
            function.name,
            "inline functions before export",
        )


def node_names(model: ir.Model) -> Iterator[LintFinding]:
    """Names of nodes are unique and not empty; atc answers duplicates with E13009."""
    counts = Counter(node.name or "" for node in model.graph.all_nodes())
    if counts[""]:
        yield LintFinding(
            "error" if has_int8_layers(model) else "warning",
            "node-names",
            f"{counts['']} node(s) have no name",
            fix="name every node; options and messages refer to nodes by name",
        )
    for name, count in counts.items():
        if name and count > 1:
            yield LintFinding(
                "error",
                "node-names",
                f"{count} nodes share one name, which atc refuses with E13009",
                name,
                "give every node a name of its own",
            )


def topological_order(model: ir.Model) -> Iterator[LintFinding]:
    """A node stands after the nodes it reads, and reads nothing that nobody writes."""
    yield from _order_of(model.graph, set())


def _order_of(graph: ir.Graph, outer: set[int]) -> Iterator[LintFinding]:
    ready = outer | {id(value) for value in (*graph.inputs, *graph.initializers.values())}
    for node in graph:
        for value in node.inputs:
            if value is not None and id(value) not in ready:
                yield _unready(node, value)
        for attribute in node.attributes.values():
            if not attribute.is_ref() and attribute.type == ir.AttributeType.GRAPH:
                yield from _order_of(attribute.as_graph(), ready)
        ready |= {id(value) for value in node.outputs}
    for value in graph.outputs:
        if id(value) not in ready:
            yield LintFinding("error", "topological-order", "nobody writes it", str(value.name))


def _unready(node: ir.Node, value: ir.Value) -> LintFinding:
    if value.producer() is None:
        what = f"it reads {value.name!r}, which is no input, initializer or output of a node"
        return LintFinding("error", "topological-order", what, label(node), "remove or connect it")
    what = f"it stands before the node that writes its input {value.name!r}"
    return LintFinding(
        "error", "topological-order", what, label(node), "sort the nodes topologically"
    )


def static_shapes(model: ir.Model) -> Iterator[LintFinding]:
    """An INT8 model is compiled for fixed shapes only."""
    if not has_int8_layers(model):
        return
    for kind, values in (("input", model.graph.inputs), ("output", model.graph.outputs)):
        for value in values:
            if not _is_static(value):
                shape = "no shape" if value.shape is None else f"the shape {value.shape}"
                yield LintFinding(
                    "error",
                    "static-shapes",
                    f"the {kind} has {shape}, and atc compiles INT8 models for fixed shapes only",
                    str(value.name),
                    "compile one model per bucket of target.buckets",
                )


def _is_static(value: ir.Value) -> bool:
    return value.shape is not None and all(
        isinstance(dim, int) and dim > 0 for dim in value.shape.dims
    )
