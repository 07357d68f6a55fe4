"""The text of a --customize_dtypes file: the islands, with the type of every input and output.

atc takes it in place of --keep_dtype, which quantflow passes: for versions where the latter does
not reach a node, or where a person wants other types. A line names the inputs one by one, so that
only nodes are written that the parser keeps as they are; it has no effect on a node that is fused
away.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from quantflow.export.islands import deploy_islands
from quantflow.graph.edit import opset
from quantflow.target.parser_renames import ascend_nodes

_NAMES = {
    "FLOAT": "float32", "FLOAT16": "float16", "INT8": "int8", "UINT8": "uint8", "INT32": "int32",
    "INT64": "int64", "UINT64": "uint64", "BOOL": "bool",
}  # fmt: skip


def customize_dtypes(model: ir.Model, islands: frozenset[str]) -> str:
    """One line for every island that the parser keeps under its name; the others are left out.

    Args:
        model: the very model that atc is given.
        islands: names of nodes of the float model; for an INT8 layer, see `deploy_islands`.
    """
    kept = deploy_islands(model, islands)
    nodes = [node for node in model.graph if node.name in kept]
    lines = [line for node in nodes if (line := _line(node, opset(model)))]
    return "".join(f"{line}\n" for line in lines)


def _line(node: ir.Node, version: int) -> str:
    names = [name for name, _ in ascend_nodes(node.op_type, str(node.name), version)]
    inputs, outputs = _types(node.inputs), _types(node.outputs)
    if names != [node.name] or not (inputs and outputs):
        return ""
    return f"{node.name}::InputDtype:{inputs},OutputDtype:{outputs}"


def _types(values: Sequence[ir.Value | None]) -> str:
    """The types of all values with commas between them; empty where one of them is not known."""
    known = [_NAMES.get(value.dtype.name if value.dtype else "") for value in values if value]
    return "" if None in known else ",".join(map(str, known))
