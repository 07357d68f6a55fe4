"""Names of nodes and values: unique, never empty, and telling where there is something to tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import onnx_ir as ir

from quantflow.graph.edit import all_values, constant, fresh_name
from quantflow.target.module_path import module_path

RULE_KEY = "pkg.onnxscript.rewriter.rule_name"
"""Metadata in which torch's exporter keeps what was rewritten into a node."""

LAYER_OPS = ("MatMul", "Gemm", "Conv", "ConvTranspose")


def stamp_module_paths(model: ir.Model) -> None:
    """Name every node by the torch module it came from, for later passes lose the metadata.

    The node that multiplies by a module's weight gets the module's path itself, such as
    ``encoder.layer.0.attention.self.query``; all others get ``<path>/<op type>``.
    """
    for node in model.graph:
        is_layer = node.op_type in LAYER_OPS and _reads_weight(node)
        path = (_path_before_folding(node) if is_layer else "") or module_path(node)
        if is_layer and path:
            node.name = path
        else:
            node.name = f"{path}/{node.op_type}" if path else node.op_type
    make_node_names_unique(model)


def _reads_weight(node: ir.Node) -> bool:
    """Whether the second input is constant, or the transpose of a constant, as a tied weight is."""
    value = (*node.inputs, None, None)[1]
    producer = value.producer() if value is not None else None
    if producer is not None and producer.op_type == "Transpose":
        value = producer.inputs[0]
    return constant(value) is not None


def _path_before_folding(node: ir.Node) -> str:
    """Module of a layer that the exporter folded a BatchNorm into, or empty for any other.

    Its metadata is that of the BatchNorm, but its weight still has the name of the parameter.
    """
    weight = node.inputs[1]
    if weight is None or "FuseBatchNorm" not in node.metadata_props.get(RULE_KEY, ""):
        return ""
    return str(weight.name).removesuffix(".weight")


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
