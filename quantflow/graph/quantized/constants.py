# pyright: reportUnknownMemberType=false
"""Constants in quantized form: integers behind a DequantizeLinear, or floats behind both.

Between that and whoever reads it, operators may turn and reshape them: integers and scales alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from quantflow.graph.edit import constant, opset
from quantflow.graph.quantized.affine import Affine, affine_of, is_dequantize, is_quantize

_MOVES = {"Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}

_BOUNDS = {
    ir.DataType.INT4: (-8, 7),
    ir.DataType.UINT4: (0, 15),
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT16: (-(2**15), 2**15 - 1),
    ir.DataType.UINT16: (0, 2**16 - 1),
    ir.DataType.INT32: (-(2**31), 2**31 - 1),
}
"""Integer types; of others (float8) nothing is read but their values."""


@dataclass(frozen=True, slots=True)
class QuantizedConstant:
    """A constant ``steps * scale``, element by element.

    Attributes:
        steps: the integers less their zero point, of any shape.
        scale: of the same shape, float32.
        one_scale: whether a single scale holds for all.
        dtype: of the integers in the file.
        shifted: whether a zero point other than that of symmetric integers was taken off.
    """

    steps: NDArray[Any]
    scale: NDArray[np.float32]
    one_scale: bool
    dtype: ir.DataType
    shifted: bool

    @property
    def is_integer(self) -> bool:
        """Whether the file's type is an integer."""
        return self.dtype in _BOUNDS

    def floats(self) -> NDArray[np.float32]:
        """The float32 values, as DequantizeLinear computes them."""
        return self.steps.astype(np.float32) * self.scale


def quantized_constant(value: ir.Value | None, model: ir.Model) -> QuantizedConstant | None:
    """The quantized constant that a value is, None where it is something else.

    Args:
        value: what a layer reads as its weight, say, or the output of a DequantizeLinear.
        model: gives the opset.

    Raises:
        QuantflowError: QF230 as `affine_of`.
    """
    moves = list[ir.Node]()
    node = value.producer() if value is not None else None
    while node is not None and _moves(node):
        moves.append(node)
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    if node is None or not is_dequantize(node):
        return None
    integers = _integers(node.inputs[0], model)
    if integers is None:
        return None
    affine = affine_of(node)
    scale, zero = affine.over(integers.shape)
    centre = 128 if affine.dtype == ir.DataType.UINT8 else 0
    narrow = integers.dtype.itemsize == 1
    steps = integers.astype(np.int16 if narrow else np.int64) - zero.astype(
        np.int16 if narrow else np.int64
    )
    if affine.dtype not in _BOUNDS:
        steps = integers.astype(np.float32)
    for move in reversed(moves):
        steps, scale = _apply(move, steps, model), _apply(move, scale, model)
    return QuantizedConstant(
        steps=steps,
        scale=scale,
        one_scale=affine.scale.ndim == 0,
        dtype=affine.dtype,
        shifted=bool((affine.zero_point != centre).any()),
    )


def _moves(node: ir.Node) -> bool:
    """Whether a node leaves every value what it is; for weights, a Cast to a float type does."""
    if node.op_type == "Cast":
        return node.attributes.get_int("to", 0) in (1, 10, 11, 16)
    return node.op_type in _MOVES and node.domain in ("", "ai.onnx")


def _integers(value: ir.Value | None, model: ir.Model) -> NDArray[Any] | None:
    """The integers that reach a DequantizeLinear, None where they depend on the model's inputs."""
    steps = list[ir.Node]()
    while value is not None and (node := value.producer()) is not None:
        steps.append(node)
        if is_quantize(node):
            value = node.inputs[0]
            break
        if not (_moves(node) or node.op_type == "Clip"):
            return None
        value = node.inputs[0]
    tensor = constant(value)
    if tensor is None:
        return None
    array = np.asarray(tensor.numpy())
    for node in reversed(steps):
        array = _quantize(array, affine_of(node)) if is_quantize(node) else array
        array = _apply(node, array, model) if not is_quantize(node) else array
    return array


def _quantize(x: NDArray[Any], affine: Affine) -> NDArray[Any]:
    """``saturate(rint(x / scale) + zero_point)``."""
    scale, zero = affine.over(x.shape)
    low, high = _BOUNDS.get(affine.dtype, (-(2**31), 2**31 - 1))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = np.nan_to_num(np.rint(x.astype(np.float32) / scale).astype(np.float64))
    whole = np.clip(steps + zero, low, high)
    return whole.astype(np.int8 if low < 0 else np.uint8) if high < 256 else whole.astype(np.int64)


def _apply(node: ir.Node, array: NDArray[Any], model: ir.Model) -> NDArray[Any]:
    """What one operator makes of an array, its other inputs being constants."""
    if node.op_type == "Cast":
        return array
    if node.op_type == "Clip":
        low, high = (constant(value) for value in (*node.inputs, None, None)[1:3])
        return np.clip(
            array, low.numpy() if low else None, high.numpy() if high else None
        )  # fmt: skip
    if node.op_type == "Transpose" and "perm" in node.attributes:
        return array.transpose(node.attributes["perm"].as_ints())
    others = {f"i{i}": constant(value) for i, value in enumerate(node.inputs) if i and value}
    feeds = {name: np.asarray(tensor.numpy()) for name, tensor in others.items() if tensor}
    proto = ir.to_proto(node)
    del proto.input[:], proto.output[:]
    proto.input.extend(["i0", *feeds])
    proto.output.append("y")
    info = onnx.helper.make_tensor_value_info
    kinds = onnx.TensorProto
    graph = onnx.helper.make_graph(
        [proto],
        "move",
        [info("i0", kinds.FLOAT, None), *(info(name, kinds.INT64, None) for name in feeds)],
        [info("y", kinds.FLOAT, None)],
    )
    imports = [onnx.helper.make_opsetid("", opset(model))]
    evaluator = ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=imports))
    (result,) = evaluator.run(None, {"i0": np.asarray(array), **feeds})
    return np.asarray(result)
