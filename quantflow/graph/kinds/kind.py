"""What tells one kind of layer from another, as far as the float graph goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.config import OptionalLayer


@dataclass(frozen=True, slots=True)
class Operands:
    """What a layer reads and writes.

    Attributes:
        activation: the tensor to be quantized.
        weight: its constant weight, or None.
        second: the other activation of a product of two, or None.
        bias: its constant bias, or None.
        output: the value after the bias.
        bias_node: the Add of a bias that is a node of its own, or None.
    """

    activation: ir.Value
    weight: ir.Value | None
    second: ir.Value | None
    bias: ir.Value | None
    output: ir.Value
    bias_node: ir.Node | None = None


@dataclass(frozen=True, slots=True)
class LayerKind:
    """One kind of layer.

    Attributes:
        op_type: of its nodes.
        matches: whether a node of that type is such a layer.
        operands: what such a node reads and writes.
        float_reason: why a node of a static graph cannot be INT8 by Ascend's rules, or empty.
        macs: multiply-accumulates of a node of a static graph, whole batch. 0 where there is no
            constant weight.
        channel_axis: of its input and output, -1 or 1.
        spatial: whether a window slides over its input.
        option: the `quantization.optional_layers` that turns it on, or empty for one always on.
    """

    op_type: str
    matches: Callable[[ir.Node], bool]
    operands: Callable[[ir.Node], Operands]
    float_reason: Callable[[ir.Node], str]
    macs: Callable[[ir.Node], int]
    channel_axis: int
    spatial: bool = False
    option: OptionalLayer | None = None


@dataclass(frozen=True, slots=True)
class WeightLayout:
    """How a weight becomes a matrix ``(K, N)`` of N output channels, and back.

    In that form all kinds are one: a scale, a bias and an accumulator a column.

    Attributes:
        to_matrix: from a weight and its number of groups.
        from_matrix: from the matrix, the weight's shape and its number of groups.
    """

    to_matrix: Callable[[NDArray[Any], int], NDArray[Any]]
    from_matrix: Callable[[NDArray[Any], tuple[int, ...], int], NDArray[Any]]
