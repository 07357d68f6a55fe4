"""Gemm in the one form that the dialect knows: no transposes, alpha = beta = 1."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.weight_file import array_of, derived
from quantflow.graph.edit import constant, give_constant


def normalize_gemm(model: ir.Model) -> int:
    """Fold transB and alpha into a constant weight and beta into a constant bias.

    transA becomes a Transpose in front. A Gemm whose weight is no 2-D constant is left alone, as is
    a beta whose bias is no constant.
    """
    changed = 0
    for node in list(model.graph):
        if node.op_type == "Gemm" and constant(node.inputs[1]) is not None:
            changed += _normalize(node)
    return changed


def _normalize(node: ir.Node) -> int:
    attributes = node.attributes
    alpha, beta = attributes.get_float("alpha", 1.0), attributes.get_float("beta", 1.0)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    bias_tensor = constant(bias)
    if bias is not None and bias_tensor is None and beta != 1.0:
        return 0
    changed = False
    if attributes.get_int("transA", 0):
        _transpose_activation(node)
        changed = True
    if attributes.get_int("transB", 0) or alpha != 1.0:
        _fold_into_weight(node, alpha, transpose=bool(attributes.get_int("transB", 0)))
        changed = True
    if bias_tensor is not None and beta != 1.0:
        scaled = np.ascontiguousarray(bias_tensor.numpy() * np.float32(beta), np.float32)
        give_constant(node, 2, ir.tensor(scaled, name=_folded_name(node, 2)))
        changed = True
    attributes.clear()
    return int(changed)


def _fold_into_weight(node: ir.Node, alpha: float, *, transpose: bool) -> None:
    old = constant(node.inputs[1])
    assert old is not None
    shape = old.shape.numpy()

    def folded() -> NDArray[np.float32]:
        weight = array_of(old).T if transpose else array_of(old)
        return np.ascontiguousarray(weight * np.float32(alpha), np.float32)

    name = _folded_name(node, 1)
    shape = shape[::-1] if transpose else shape
    give_constant(node, 1, derived(name, folded, ir.DataType.FLOAT, shape))


def _folded_name(node: ir.Node, index: int) -> str:
    value = node.inputs[index]
    return f"{value.name if value is not None else node.name}_folded"


def _transpose_activation(node: ir.Node) -> None:
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    transpose = ir.node(
        "Transpose", [node.inputs[0]], {"perm": [1, 0]}, name=f"{node.name}/Transpose"
    )
    transpose.outputs[0].name = f"{node.name}/transposed"
    graph.insert_before(node, transpose)
    node.replace_input_with(0, transpose.outputs[0])
