"""The table of layer kinds, and which of them a node or a layer is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layer
from quantflow.config import OptionalLayer
from quantflow.graph.kinds.average_pool import AVERAGE_POOL
from quantflow.graph.kinds.conv import CONV, CONV_LAYOUT
from quantflow.graph.kinds.conv_transpose import CONV_TRANSPOSE, CONV_TRANSPOSE_LAYOUT
from quantflow.graph.kinds.gemm import GEMM
from quantflow.graph.kinds.kind import LayerKind, WeightLayout
from quantflow.graph.kinds.matmul import MATMUL
from quantflow.graph.kinds.matmul_pair import MATMUL_PAIR

KINDS: Final = (MATMUL, MATMUL_PAIR, GEMM, CONV, CONV_TRANSPOSE, AVERAGE_POOL)
"""Every kind of layer."""

_LAYOUTS: Final = {"Conv": CONV_LAYOUT, "ConvTranspose": CONV_TRANSPOSE_LAYOUT}
_AS_IT_IS: Final = WeightLayout(
    to_matrix=lambda weight, _: weight, from_matrix=lambda matrix, _, __: matrix
)


def kind_of(node: ir.Node, optional: Collection[OptionalLayer] = ()) -> LayerKind | None:
    """The kind of layer that a node is; None for any other node.

    Args:
        node: of the main graph.
        optional: the kinds that count although they are off by default.
    """
    for kind in KINDS:
        on = kind.option is None or kind.option in optional
        if on and node.op_type == kind.op_type and kind.matches(node):
            return kind
    return None


def channel_axis(layer: Layer) -> int:
    """Channel axis of a layer's input and output: 1, or -1 for the last."""
    return next(kind.channel_axis for kind in KINDS if kind.op_type == layer.op_type)


def groups_of(layer: Layer) -> int:
    """Number of groups that a layer's channels fall into; 1 for all but convolutions."""
    return layer.window.groups if layer.window else 1


def weight_matrix(weight: NDArray[Any], op_type: str, groups: int) -> NDArray[Any]:
    """A weight as ``(K, N)``: a column an output channel, whatever the kind of layer."""
    return _LAYOUTS.get(op_type, _AS_IT_IS).to_matrix(weight, groups)


def weight_from_matrix(
    matrix: NDArray[Any], shape: tuple[int, ...], op_type: str, groups: int
) -> NDArray[Any]:
    """The way back from `weight_matrix` to a weight of `shape`."""
    return _LAYOUTS.get(op_type, _AS_IT_IS).from_matrix(matrix, shape, groups)
