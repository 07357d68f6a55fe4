"""The quantization of a layer's weight: which scale every output channel has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.graph.quantized.constants import QuantizedConstant, quantized_constant
from quantflow.numerics.quantize import QMAX, QMIN

FLOAT_WEIGHT = "its weight is float in the quantized file"


@dataclass(frozen=True, slots=True)
class WeightScales:
    """Scales of a weight.

    Attributes:
        scale: ``(1,)`` or, one an output channel, ``(N,)`` float32, positive.
        steps: the largest magnitude of the integers that each scale is for, ``(N,)``.
    """

    scale: NDArray[np.float32]
    steps: NDArray[np.int64]


def weight_of(layer: ir.Node, model: ir.Model) -> WeightScales | str:
    """The scales of a layer's weight, or why it cannot be INT8 as it stands.

    A weight is symmetric int8 when its integers less their zero point are in [-128, 127], whatever
    type the file holds them in: uint8 around 128, or int4.

    Raises:
        QuantflowError: QF230 as `quantized_constant`.
    """
    found = quantized_constant(layer.inputs[1], model)
    if found is None:
        return FLOAT_WEIGHT
    if not found.is_integer:
        return f"its weight is {found.dtype.name.lower()}"
    steps, scale = by_channel(layer, found.steps), by_channel(layer, found.scale)
    if problem := _beyond_int8(found) or _bad_scales(scale):
        return problem
    largest = np.abs(steps.astype(np.int64)).max(axis=1, initial=0)
    return WeightScales(scale[:1, 0] if found.one_scale else scale[:, 0], largest)


def by_channel(layer: ir.Node, weight: NDArray[Any]) -> NDArray[Any]:
    """A weight as ``(N, ...)``: one row an output channel.

    Args:
        layer: a MatMul, Gemm, Conv or ConvTranspose.
        weight: as the operator holds it.
    """
    if layer.op_type == "Conv" or (
        layer.op_type == "Gemm" and layer.attributes.get_int("transB", 0)
    ):
        return weight.reshape(len(weight), -1)
    if layer.op_type == "ConvTranspose":
        groups = layer.attributes.get_int("group", 1)
        parts = weight.reshape(groups, len(weight) // groups, *weight.shape[1:])
        return np.moveaxis(parts, 1, 2).reshape(groups * weight.shape[1], -1)
    return np.moveaxis(weight, -1, 0).reshape(weight.shape[-1], -1)


def _beyond_int8(found: QuantizedConstant) -> str:
    low, high = int(found.steps.min(initial=0)), int(found.steps.max(initial=0))
    if low >= QMIN and high <= QMAX:
        return ""
    if found.shifted:
        return f"its weight is asymmetric: less the zero point, its integers are {low} to {high}"
    return f"its weight is {found.dtype.name.lower()} and needs more than 8 bits: {low} to {high}"


def _bad_scales(scale: NDArray[np.float32]) -> str:
    """What is wrong with ``(N, ...)`` scales, or nothing."""
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        return "a scale of its weight is not positive"
    if (scale != scale[:, :1]).any():
        return "the scales of its weight differ within an output channel"
    return ""
