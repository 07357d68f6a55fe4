"""Rules about AscendDequant, whose scale is a float32 in the low half of a uint64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.target.dialect import (
    LAYER_OPS,
    LintFinding,
    constant,
    input_of,
    int_attribute,
    is_int8_layer,
    is_int8_pair,
    label,
    nodes_of,
    numbers,
    output_channels,
    produced_by,
    static_dims,
)

_OUTPUTS: Final = {0: ir.DataType.FLOAT, 1: ir.DataType.FLOAT16}
"""What the values of ``dtype`` stand for."""


def dequant_inputs(model: ir.Model) -> Iterator[LintFinding]:
    """It reads an INT8 layer, directly or through the Add of a MatMul's bias."""
    for node in nodes_of(model, "AscendDequant"):
        if len(node.inputs) != 2 or len(node.outputs) != 1:
            what = f"it has {len(node.inputs)} input(s) and {len(node.outputs)} output(s)"
            yield _error("dequant-inputs", node, what, "two inputs and one output are due")
        if _layer_of(node) is None:
            what = "its first input does not come from an INT8 layer"
            yield _error("dequant-inputs", node, what, "put it after the layer, or its bias Add")


def dequant_attributes(model: ir.Model) -> Iterator[LintFinding]:
    """``dtype`` is an INT, 0 for float32 out and 1 for float16 out."""
    for node in nodes_of(model, "AscendDequant"):
        if "dtype" not in node.attributes:
            yield LintFinding(
                "warning",
                "dequant-attributes",
                "attribute 'dtype' is missing and reads 0, float32",
                label(node),
                "write it",
            )
        elif int_attribute(node, "dtype", 0) not in (0, 1):
            what = "attribute 'dtype' is not the INT 0 or 1; of another type it reads 0"
            yield _error("dequant-attributes", node, what, "write 0 for float32, 1 for float16")


def dequant_types(model: ir.Model) -> Iterator[LintFinding]:
    """What it writes is declared as what ``dtype`` says."""
    for node in nodes_of(model, "AscendDequant"):
        dtype = int_attribute(node, "dtype", 0)
        wanted = _OUTPUTS.get(dtype) if dtype is not None else None
        for value in node.outputs:
            if wanted is not None and value.dtype not in (None, wanted):
                what = f"it writes {wanted}, and {value.name!r} is declared as {value.dtype}"
                fix = "make attribute 'dtype' and the declared type agree"
                yield _error("dequant-types", node, what, fix)


def dequant_scales(model: ir.Model) -> Iterator[LintFinding]:
    """``deq_scale`` is a 1-D uint64 initializer of positive finite float32 bits."""
    for node in nodes_of(model, "AscendDequant"):
        tensor = constant(input_of(node, 1))
        if tensor is None or tensor.dtype != ir.DataType.UINT64:
            found = "not an initializer" if tensor is None else tensor.dtype.name
            what = f"deq_scale is {found}"
            yield _error("dequant-scales", node, what, "write it as uint64 initializer")
            continue
        problem = _length_problem(node, tensor) or _value_problem(numbers(tensor))
        if problem:
            fix = "write the float32 bits of scale_d * scale_w into the low 32 bits"
            yield _error("dequant-scales", node, problem, fix)


def _length_problem(node: ir.Node, tensor: ir.TensorProtocol) -> str:
    dims = static_dims(tensor)
    layer = _layer_of(node)
    channels = output_channels(layer) if layer is not None else None
    if layer is not None and is_int8_pair(layer):
        channels = 1
    if len(dims) != 1 or dims[0] == 0:
        return f"deq_scale has shape {dims}; it is 1-D"
    if channels is not None and dims[0] not in (1, channels):
        return f"deq_scale has {dims[0]} numbers, the layer {channels} output channel(s)"
    return ""


def _value_problem(bits: NDArray[Any] | None) -> str:
    if bits is None or bits.dtype != np.uint64:
        return "deq_scale cannot be read"
    if (bits >> np.uint64(32)).any():
        return "the high 32 bits of deq_scale are not 0"
    scales = bits.astype(np.uint32).view(np.float32)
    bad = int(np.count_nonzero(~(np.isfinite(scales) & (scales > 0))))
    if bad:
        return f"{bad} of {scales.size} scales are not positive and finite"
    return ""


def _layer_of(dequant: ir.Node) -> ir.Node | None:
    """The INT8 layer that an AscendDequant belongs to."""
    value = input_of(dequant, 0)
    add = produced_by(value, "Add")
    if add is not None:
        layer = produced_by(input_of(add, 0), "MatMul") or produced_by(input_of(add, 1), "MatMul")
    else:
        layer = produced_by(value, *LAYER_OPS)
    return layer if layer is not None and is_int8_layer(layer) else None


def _error(rule: str, node: ir.Node, what: str, fix: str) -> LintFinding:
    return LintFinding("error", rule, what, label(node), fix)
