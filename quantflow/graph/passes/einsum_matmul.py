"""Einsum that is a linear layer, as the MatMul that layers are looked for among."""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import constant, replace_node

_LINEAR = re.compile(r"(?P<rows>(\.\.\.)?\w*)(?P<k>\w),(?P<weight>\w\w)->(?P=rows)(?P<n>\w)")
"""The last axis of a variable against one axis of a 2-D constant."""


def einsum_matmul(model: ir.Model) -> int:
    """Rewrite ``...k,kn->...n`` and ``...k,nk->...n`` with a constant second operand."""
    changed = 0
    for node in list(model.graph.all_nodes()):
        if node.op_type == "Einsum" and len(node.inputs) == 2:
            changed += _rewrite(node)
    return changed


def _rewrite(node: ir.Node) -> int:
    equation = node.attributes.get_string("equation", "").replace(" ", "")
    tensor, form = constant(node.inputs[1]), _LINEAR.fullmatch(equation)
    if tensor is None or form is None or constant(node.inputs[0]) is not None:
        return 0
    k, n, rows = form["k"], form["n"], form["rows"].replace(".", "")
    letters = [*rows, k, n]
    if len(set(letters)) < len(letters) or form["weight"] not in (k + n, n + k):
        return 0
    tape = ir.tape.Tape()
    weight = node.inputs[1]
    if form["weight"] != k + n:
        turned = ir.tensor(np.ascontiguousarray(tensor.numpy().T))
        weight = tape.initializer(turned, name=f"{node.name}/weight")
    replace_node(node, tape, tape.op("MatMul", [node.inputs[0], weight]))
    return 1
