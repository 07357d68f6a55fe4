"""ConvTranspose with a constant weight ``(C, N / groups, ...)``: 4-D and not dilated."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.graph.edit import constant
from quantflow.graph.kinds.conv import common_reason, matches, operands
from quantflow.graph.kinds.kind import LayerKind, WeightLayout


def _float_reason(node: ir.Node) -> str:
    weight = constant(node.inputs[1])
    if weight is None or weight.shape.rank() != 4:
        return "INT8 ConvTranspose has a 4-D weight, and this one has not"
    if any(step != 1 for step in node.attributes.get_ints("dilations", ())):
        return "INT8 ConvTranspose has dilation 1, and this one has not"
    return common_reason(node)


def _macs(node: ir.Node) -> int:
    """Input elements times the kernel and channels that each of them is multiplied by."""
    weight, source = constant(node.inputs[1]), node.inputs[0]
    shape = source.shape if source is not None else None
    if weight is None or shape is None or not shape.is_static():
        return 0
    return prod(shape.numpy()) * prod(weight.shape.numpy()[1:])


def ungrouped(weight: NDArray[Any], groups: int) -> NDArray[Any]:
    """The weight as ``(N, C / groups, ...)``, the shape of a Conv's.

    Output channel ``g * (N / groups) + m`` is channel m of the rows of group g.
    """
    channels, width, *kernel = weight.shape
    grouped = weight.reshape(groups, channels // groups, width, *kernel)
    return np.moveaxis(grouped, 2, 1).reshape(groups * width, channels // groups, *kernel)


def _to_matrix(weight: NDArray[Any], groups: int) -> NDArray[Any]:
    rows = ungrouped(weight, groups)
    return rows.reshape(len(rows), -1).T


def _from_matrix(matrix: NDArray[Any], shape: tuple[int, ...], groups: int) -> NDArray[Any]:
    channels, width, *kernel = shape
    grouped = matrix.T.reshape(groups, width, channels // groups, *kernel)
    return np.moveaxis(grouped, 1, 2).reshape(shape)


CONV_TRANSPOSE = LayerKind(
    "ConvTranspose", matches, operands, _float_reason, _macs, channel_axis=1, spatial=True
)
CONV_TRANSPOSE_LAYOUT = WeightLayout(_to_matrix, _from_matrix)
