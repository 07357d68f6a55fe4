"""The text of atc's --keep_dtype file: what stays in fp32.

A line is a node name or ``OpType::Type``. atc ignores a name that matches nothing and says so only
in a log, so a name is written only where it is certain that the parser makes a node of that name.
Where it is not, the line names the op type, which keeps every node of that type in fp32: slower,
but never silently without effect.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from quantflow.export.islands import deploy_islands
from quantflow.graph.edit import opset
from quantflow.target.parser_renames import ascend_nodes, ascend_types

_HELPERS = frozenset({
    "BroadcastTo", "Cast", "ExpandDims", "Flatten", "Reshape", "Shape", "Slice", "Squeeze",
    "StridedSlice", "TensorMove", "Transpose", "TransposeD", "Unsqueeze", "ZerosLike",
})  # fmt: skip
"""Ascend op types that move data or read shapes: the parser adds some around what computes."""


@dataclass(frozen=True, slots=True)
class KeepDtype:
    """Content of a --keep_dtype file.

    Attributes:
        text: one entry a line; empty without islands.
        by_type: Ascend op types that had to stand in for node names, sorted.
        unnamed: islands that atc has no known name for, which the file cannot keep in fp32.
    """

    text: str
    by_type: tuple[str, ...]
    unnamed: tuple[str, ...]


def keep_dtype(model: ir.Model, islands: frozenset[str]) -> KeepDtype:
    """Entries for the islands of a deploy model or of its float twin.

    Args:
        model: the very model that atc is given.
        islands: names of nodes of the float model; for an INT8 layer, see `deploy_islands`.
    """
    kept = deploy_islands(model, islands)
    names, types, unnamed = list[str](), set[str](), list[str]()
    for node in model.graph.all_nodes():
        if node.name not in kept:
            continue
        certain = [name for name, _ in certain_nodes(node, opset(model))]
        kinds = computing_types(node, opset(model))
        names += certain
        if not certain and kinds:
            types.update(kinds)
        elif not certain:
            unnamed.append(node.name)
    by_type = tuple(sorted(types))
    lines = [*names, *(f"OpType::{kind}" for kind in by_type)]
    return KeepDtype("".join(f"{line}\n" for line in lines), by_type, tuple(unnamed))


def computing_types(node: ir.Node, version: int) -> list[str]:
    """The Ascend op types that may stand for `node` at an opset, without helpers that move data."""
    return [kind for kind in ascend_types(node.op_type, version) if kind not in _HELPERS]


def certain_nodes(node: ir.Node, version: int) -> list[tuple[str, str]]:
    """Name and Ascend op type of the computing nodes that the parser is sure to make of `node`."""
    candidates = dict(ascend_nodes(node.op_type, str(node.name), version))
    if len(candidates) < 2:
        return list(candidates.items())
    names = [f"{node.name}{suffix}" for suffix in _suffixes(node)]
    return [(name, candidates[name]) for name in names if name in candidates]


def _suffixes(node: ir.Node) -> tuple[str, ...]:
    """Of the operators that become several nodes, the suffixes that `node` decides."""
    if node.op_type == "Gemm":
        return ("_MatMulV2", "_add") if len(node.inputs) > 2 else ("_MatMulV2",)
    if node.op_type == "LayerNormalization":
        return ("_LayerNorm",)
    if node.op_type in ("Conv", "ConvTranspose"):
        weight = node.inputs[1]
        rank = weight.shape.rank() if weight is not None and weight.shape is not None else 0
        tail = "" if node.op_type == "Conv" else "Transpose"
        return {4: (f"_Conv2D{tail}",), 5: (f"_Conv3D{tail}",)}.get(rank, ())
    if node.op_type == "ReduceLogSum":
        return ("_ReduceSum", "_Log")
    return ()
