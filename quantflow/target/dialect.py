"""What the rules of the INT8 dialect share: the finding, and how they look at a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.target.module_path import module_path

LAYER_OPS: Final = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul", "AveragePool"))
"""Op types that may read the output of an AscendQuant."""

WEIGHTED_OPS: Final = LAYER_OPS - {"AveragePool"}


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One departure from the dialect.

    Attributes:
        level: an `error` makes atc refuse the model or compute something else, a `warning` costs
            speed or cannot be checked, an `info` is good to know.
        rule: name of the rule, such as ``quant-attributes``.
        what: what is wrong, in one sentence.
        where: node, value or op type; empty for the model as a whole.
        fix: what to do.
    """

    level: Literal["error", "warning", "info"]
    rule: str
    what: str
    where: str = ""
    fix: str = ""


def model_opset(model: ir.Model) -> int | None:
    """Version of the default domain that the model imports; ``ai.onnx`` is its other spelling."""
    imports = model.opset_imports
    return imports.get("", imports.get("ai.onnx"))


def nodes_of(model: ir.Model, *op_types: str) -> Iterator[ir.Node]:
    """The nodes of the given types, bodies of control flow included."""
    return (node for node in model.graph.all_nodes() if node.op_type in op_types)


def label(node: ir.Node) -> str:
    """How a node is called in a finding: its name, and the torch module where that says more."""
    path = module_path(node)
    if node.name:
        return f"{node.name} ({path})" if path and path not in node.name else node.name
    outputs = ", ".join(str(value.name) for value in node.outputs)
    return f"{node.op_type} without a name (writes {outputs})"


def input_of(node: ir.Node, index: int) -> ir.Value | None:
    """An input of a node; None when it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def produced_by(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    """The node that writes `value`, if it is of one of the types."""
    node = value.producer() if value is not None else None
    return node if node is not None and node.op_type in op_types else None


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor of an initializer that no input can override, else None."""
    if value is None or not value.is_initializer() or value.is_graph_input():
        return None
    return value.const_value


def numbers(tensor: ir.TensorProtocol) -> NDArray[Any] | None:
    """The values of a tensor, or None where its bytes are missing or do not fit its shape."""
    try:
        return np.asarray(tensor.numpy())
    except (OSError, ValueError, TypeError):
        return None


def static_dims(tensor: ir.TensorProtocol) -> tuple[int, ...]:
    """The shape of a tensor as integers."""
    return tuple(tensor.shape.numpy())


def int_attribute(node: ir.Node, name: str, default: int) -> int | None:
    """An INT attribute, `default` where it is absent, None where it has another type."""
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    if attribute.is_ref() or attribute.type != ir.AttributeType.INT:
        return None
    return int(attribute.value)


def has_int8_layers(model: ir.Model) -> bool:
    """Whether the model is written in the dialect at all; an ordinary float model is not."""
    return next(nodes_of(model, "AscendQuant", "AscendDequant"), None) is not None


def is_int8_pair(node: ir.Node) -> bool:
    """Whether the node is a MatMul of two variables that both come from an AscendQuant."""
    quants = [produced_by(input_of(node, index), "AscendQuant") for index in (0, 1)]
    return node.op_type == "MatMul" and None not in quants


def is_int8_layer(node: ir.Node) -> bool:
    """Whether the node is a layer that reads an AscendQuant."""
    quant = produced_by(input_of(node, 0), "AscendQuant")
    return node.op_type in LAYER_OPS and quant is not None


def output_channels(layer: ir.Node) -> int | None:
    """Number of output channels that a layer's weight has, None where that cannot be told.

    MatMul and Gemm weights are ``(K, N)``, Conv weights ``(N, C, ...)`` and ConvTranspose weights
    ``(C, N / groups, ...)``.
    """
    weight = constant(input_of(layer, 1))
    if layer.op_type not in WEIGHTED_OPS or weight is None:
        return None
    dims = static_dims(weight)
    if len(dims) < 2:
        return None
    if layer.op_type == "Conv":
        return dims[0]
    if layer.op_type == "ConvTranspose":
        groups = int_attribute(layer, "group", 1)
        return None if groups is None else dims[1] * groups
    return dims[-1]
