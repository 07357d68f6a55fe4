"""Gemm in the one form that the dialect knows: no transposes, alpha = beta = 1."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import constant, fresh_name


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
        tensor = constant(node.inputs[1])
        assert tensor is not None
        weight = tensor.numpy()
        weight = weight.T if attributes.get_int("transB", 0) else weight
        _replace_constant(node, 1, weight * np.float32(alpha))
        changed = True
    if bias_tensor is not None and beta != 1.0:
        _replace_constant(node, 2, bias_tensor.numpy() * np.float32(beta))
        changed = True
    attributes.clear()
    return int(changed)


def _replace_constant(node: ir.Node, index: int, array: np.ndarray) -> None:
    """Give the node a constant of its own, for others may read the old one."""
    graph, old = node.graph, node.inputs[index]
    assert isinstance(graph, ir.Graph) and old is not None
    name = fresh_name(f"{old.name}_folded", graph.initializers)
    tensor = ir.tensor(np.ascontiguousarray(array, np.float32), name=name)
    value = ir.val(name, const_value=tensor)
    graph.register_initializer(value)
    node.replace_input_with(index, value)


def _transpose_activation(node: ir.Node) -> None:
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    transpose = ir.node(
        "Transpose", [node.inputs[0]], {"perm": [1, 0]}, name=f"{node.name}/Transpose"
    )
    transpose.outputs[0].name = f"{node.name}/transposed"
    graph.insert_before(node, transpose)
    node.replace_input_with(0, transpose.outputs[0])
