"""What a QuantizeLinear or DequantizeLinear says: ``(q - zero_point) * scale``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.errors import fail
from quantflow.graph.edit import constant
from quantflow.numerics.quantize import MAX_MULTIPLIER, MIN_MULTIPLIER, QuantParams

DOMAINS = ("", "ai.onnx", "com.microsoft")
"""Where these operators live; those of onnxruntime's own domain mean the same."""

_TO_INT8 = {ir.DataType.INT8: 0, ir.DataType.UINT8: 128}
"""What is subtracted from integers of a type, zero point included, to make int8 of them."""


_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Affine:
    """How integers stand for floats.

    Attributes:
        scale: float32; ``()`` for a tensor, ``(C,)`` along `axis`, or of the tensor's own rank
            where blocks of `block` along `axis` share one.
        zero_point: of the same shape, as wide as the type needs.
        dtype: of the integers.
        axis, block: see `scale`; a block of 0 is none.
        wide: numpy type of the floats: that of the scale in the file.
    """

    scale: NDArray[np.float32]
    zero_point: NDArray[np.int64]
    dtype: ir.DataType
    axis: int
    block: int
    wide: type[np.float32] | type[np.float16]

    def same_as(self, other: Affine) -> bool:
        """Whether both stand for the same floats, integer by integer."""
        along = self.scale.ndim == 0 or (self.axis, self.block) == (other.axis, other.block)
        equal = np.array_equal(self.scale, other.scale, equal_nan=True)
        return along and equal and np.array_equal(self.zero_point, other.zero_point)

    def over(self, shape: tuple[int, ...]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Scale and zero point of every element of a tensor, as views where that is possible.

        Raises:
            QuantflowError: QF230 when there are more or fewer scales than the tensor has channels,
                or it has no such axis.
        """
        if self.scale.ndim and not -len(shape) <= self.axis < len(shape):
            what = f"scales along axis {self.axis} do not fit a tensor of shape {shape}"
            fail("QF230", what, where=f"axis {self.axis}", fix="write the file anew")
        try:
            return self._spread(self.scale, shape), self._spread(self.zero_point, shape)
        except ValueError:
            what = f"scales of shape {self.scale.shape} do not fit a tensor of shape {shape}"
            fail("QF230", what, where=f"axis {self.axis}", fix="write the file anew")

    def _spread(self, array: NDArray[_Number], shape: tuple[int, ...]) -> NDArray[_Number]:
        if array.ndim == 0:
            return np.broadcast_to(array, shape)
        axis = self.axis % len(shape)
        if self.block:
            return np.repeat(array, self.block, axis)[tuple(slice(size) for size in shape)]
        column = [1] * len(shape)
        column[axis] = -1
        return np.broadcast_to(array.reshape(column), shape)


def is_quantize(node: ir.Node | None) -> bool:
    """Whether a node is a QuantizeLinear."""
    return node is not None and node.op_type == "QuantizeLinear" and node.domain in DOMAINS


def is_dequantize(node: ir.Node | None) -> bool:
    """Whether a node is a DequantizeLinear."""
    return node is not None and node.op_type == "DequantizeLinear" and node.domain in DOMAINS


def affine_of(node: ir.Node) -> Affine:
    """Read the parameters of a QuantizeLinear or DequantizeLinear.

    Raises:
        QuantflowError: QF230 when scale or zero point are no constants, or do not fit together.
    """
    scale, zero = constant(node.inputs[1]), (*node.inputs, None)[2]
    offset = constant(zero)
    if scale is None or (zero is not None and offset is None):
        what = f"scale or zero point of {node.op_type} {node.name!r} is computed, not constant"
        fail(
            "QF230", what, where=str(node.name), fix="quantize statically, or give the float model"
        )
    scales = np.asarray(scale.numpy()).astype(np.float32)
    zeros = np.zeros(scales.shape, np.int64)
    if offset is not None:
        zeros = np.asarray(offset.numpy()).astype(np.int64)
    if scales.size == zeros.size == 1:
        scales, zeros = scales.reshape(()), zeros.reshape(())
    if scales.shape != zeros.shape:
        what = f"scale and zero point of {node.op_type} {node.name!r} differ in shape"
        fail("QF230", what, where=str(node.name), fix="write the file anew")
    return Affine(
        scale=scales,
        zero_point=zeros,
        dtype=_dtype(node, offset),
        axis=node.attributes.get_int("axis", 1),
        block=node.attributes.get_int("block_size", 0),
        wide=np.float16 if scale.dtype == ir.DataType.FLOAT16 else np.float32,
    )


def activation_params(affine: Affine) -> QuantParams | str:
    """Scale and zero point of an activation as AscendQuant takes them, or why it cannot.

    The unsigned integer u and zero point z are the signed u - 128 and z - 128: the same floats.
    """
    if affine.scale.ndim:
        return "its input has a scale per channel, AscendQuant takes one per tensor"
    if affine.dtype not in _TO_INT8:
        return f"its input is {affine.dtype.name.lower()}, AscendQuant writes int8"
    scale = float(affine.scale)
    if not (np.isfinite(scale) and scale > 0):
        return f"the scale of its input is {scale:g}"
    params = QuantParams(scale, int(affine.zero_point) - _TO_INT8[affine.dtype])
    with np.errstate(divide="ignore", over="ignore"):
        multiplier = float(params.multiplier)
    if not MIN_MULTIPLIER <= multiplier <= MAX_MULTIPLIER:
        return f"1 / scale of its input is {multiplier:.4g}, AscendQuant takes [2^-23, 2^23]"
    return params


def _dtype(node: ir.Node, zero_point: ir.TensorProtocol | None) -> ir.DataType:
    """Type of the integers that a node writes or reads."""
    if zero_point is not None:
        return zero_point.dtype
    if is_quantize(node):
        named = node.attributes.get_int("output_dtype", 0)
        return ir.DataType(named) if named else ir.DataType.UINT8
    source = node.inputs[0]
    tensor = constant(source)
    known = tensor.dtype if tensor is not None else source.dtype if source is not None else None
    return known or ir.DataType.UINT8
