"""Names of nodes and values: unique, never empty, and telling where there is something to tell."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from typing import cast

import onnx_ir as ir

from quantflow.graph.edit import all_values, constant, fresh_name

SCOPES_KEY = "pkg.torch.onnx.name_scopes"
"""Metadata in which torch's exporter keeps the module path of every node."""

LAYER_OPS = ("MatMul", "Gemm", "Conv", "ConvTranspose")


def stamp_module_paths(model: ir.Model) -> None:
    """Name every node by the torch module it came from, for later passes lose the metadata.

    The node that multiplies by a module's weight gets the module's path itself, such as
    ``encoder.layer.0.attention.self.query``; all others get ``<path>/<op type>``.
    """
    for node in model.graph:
        path = _module_path(node)
        is_layer = node.op_type in LAYER_OPS and constant((*node.inputs, None, None)[1]) is not None
        if is_layer and path:
            node.name = path
        else:
            node.name = f"{path}/{node.op_type}" if path else node.op_type
    make_node_names_unique(model)


def _module_path(node: ir.Node) -> str:
    try:
        scopes = ast.literal_eval(node.metadata_props.get(SCOPES_KEY, "[]"))
    except (ValueError, SyntaxError):
        return ""
    # The last scope is the operation itself; the one before it is the innermost module.
    inner = cast("list[object]", scopes)[-2:-1] if isinstance(scopes, list) else []
    path = str(inner[0]) if inner else ""
    return "" if path.startswith("_empty_nn_module_stack") else path


def make_node_names_unique(model: ir.Model) -> None:
    """Give every node, those of If bodies included, a unique name; names that are fine are kept."""
    nodes = list(model.graph.all_nodes())
    taken = {node.name for node in nodes if node.name}
    seen = set[str]()
    numbers = Counter[str]()
    for node in nodes:
        if not node.name or node.name in seen:
            base = node.name or node.op_type
            name = base
            while name in taken:
                numbers[base] += 1
                name = f"{base}_{numbers[base]}"
            node.name = name
            taken.add(name)
        seen.add(node.name)


def rename_outputs(model: ir.Model, names: Iterable[str]) -> None:
    """Name the graph outputs; an interior value that has such a name already gives way (C23).

    Every output becomes the result of a node of its own, so that naming it renames nothing else. An
    input keeps its name, and the output that should have it is called ``<name>_output``.
    """
    _separate_outputs(model)
    wanted = list(names)
    outputs = list(model.graph.outputs)
    inputs = {value.name for value in model.graph.inputs}
    taken = {value.name for value in all_values(model.graph)} | set(wanted)
    for value in list(all_values(model.graph)):
        if value.name in wanted and value not in outputs and value.name not in inputs:
            value.name = fresh_name(f"{value.name}_interior", taken)
            taken.add(value.name)
    for value in outputs:
        value.name = None
    given = set(inputs)
    for value, name in zip(outputs, wanted, strict=True):
        value.name = name if name not in given else fresh_name(f"{name}_output", taken)
        given.add(value.name)
        taken.add(value.name)


def _separate_outputs(model: ir.Model) -> None:
    """Put an Identity in front of every output that is an input, a constant or another output."""
    graph, seen = model.graph, set[ir.Value]()
    for index, value in enumerate(graph.outputs):
        if value.producer() is not None and value not in seen:
            seen.add(value)
            continue
        node = ir.node("Identity", [value], name=f"{value.name}/Identity")
        copy = node.outputs[0]
        copy.type, copy.shape = value.type, value.shape.copy() if value.shape else None
        graph.append(node)
        graph.outputs[index] = copy


def name_weights(model: ir.Model) -> None:
    """Name every weight that only one layer reads ``<layer>.weight``."""
    taken = {value.name for value in all_values(model.graph)}
    for node in model.graph:
        weight = node.inputs[1] if node.op_type in LAYER_OPS else None
        name = f"{node.name}.weight"
        if weight is None or constant(weight) is None or name in taken or len(weight.uses()) > 1:
            continue
        weight.name = name
        taken.add(name)
