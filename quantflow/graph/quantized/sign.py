"""Which values cannot be negative, whatever the model is fed with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from quantflow.graph.edit import constant
from quantflow.graph.quantized.grid_ops import grid_inputs

DEPTH = 16
"""How many operators are looked past."""

_UNKNOWN = float("-inf")

_LEAST: Final[dict[str, float]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "HardSigmoid", "Softmax", "Softplus", "Exp"), 0.0),
    **dict.fromkeys(("Abs", "Sqrt", "ReduceL1", "ReduceL2", "ReduceSumSquare"), 0.0),
    **dict.fromkeys(("Erf", "Tanh", "Softsign", "Sin", "Cos"), -1.0),
}
"""The least value of operators, whatever they read."""

_FIRST_ONLY = {"ReduceMean", "ReduceSum", "Cast"}
_COMBINED: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    "Add": sum,
    "Sum": sum,
    "Max": max,
    "Min": min,
    **dict.fromkeys(
        ("Mul", "Div", "AveragePool", "GlobalAveragePool", "ReduceMean", "ReduceSum"),
        lambda bounds: 0.0 if min(bounds) >= 0 else _UNKNOWN,
    ),
    "Cast": min,
}
"""The least value of operators, given those of what they read."""


def never_negative(value: ir.Value | None) -> bool:
    """Whether a value is known to be 0 or more."""
    return _least(value, DEPTH, {}) >= 0


def _least(value: ir.Value | None, depth: int, known: dict[ir.Value, float]) -> float:
    """A lower bound of a value; minus infinity where none is known.

    Args:
        value: of the graph.
        depth: operators that may still be looked past.
        known: bounds found before; added to.
    """
    if value is None or depth == 0:
        return _UNKNOWN
    if value not in known:
        known[value] = _bound(value, depth, known)
    return known[value]


def _bound(value: ir.Value, depth: int, known: dict[ir.Value, float]) -> float:
    node = value.producer()
    if node is None:
        return _least_constant(value)
    if node.op_type in _LEAST:
        return _LEAST[node.op_type]
    if node.op_type == "Clip":
        return _lower_limit(node)
    if _is_square(node):
        return 0.0
    sources = grid_inputs(node)
    if sources is not None:
        return min((_least(x, depth - 1, known) for x in sources), default=_UNKNOWN)
    if node.op_type in _COMBINED:
        read = node.inputs[:1] if node.op_type in _FIRST_ONLY else node.inputs
        return _COMBINED[node.op_type]([_least(x, depth - 1, known) for x in read])
    return _UNKNOWN


def _least_constant(value: ir.Value) -> float:
    tensor = constant(value)
    return float(np.asarray(tensor.numpy()).min(initial=np.inf)) if tensor else _UNKNOWN


def _lower_limit(node: ir.Node) -> float:
    low = constant((*node.inputs, None)[1])
    if low is not None:
        return float(np.asarray(low.numpy()).item())
    return node.attributes.get_float("min", _UNKNOWN)


def _is_square(node: ir.Node) -> bool:
    """Whether a node multiplies a value by itself, or raises it to an even power."""
    if node.op_type == "Mul":
        return node.inputs[0] is node.inputs[1]
    power = constant(node.inputs[1]) if node.op_type == "Pow" else None
    return power is not None and not (np.asarray(power.numpy()) % 2).any()
