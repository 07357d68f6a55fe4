"""Padding by name (auto_pad) or by output size, written out as numbers once sizes are static.

onnxruntime refuses some of what is padded by name, such as a dilated Conv.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from quantflow.graph.window import kernel_of

_WINDOWED = ("Conv", "ConvTranspose", "AveragePool")
_ONE_SIDE = {"SAME_UPPER": False, "SAME_LOWER": True}
"""Whether the odd one out of the padding comes first, for a Conv or AveragePool."""


def resolve_auto_pad(model: ir.Model) -> int:
    """Replace `auto_pad` and `output_shape` by explicit `pads`, in place.

    Nodes whose input size is not known, or whose output is larger than padding can make it, are
    left alone.

    Returns:
        Number of nodes that changed.
    """
    return sum(_resolve(node) for node in model.graph if node.op_type in _WINDOWED)


def _resolve(node: ir.Node) -> bool:
    attributes = node.attributes
    mode = attributes.get_string("auto_pad", "NOTSET") or "NOTSET"
    if mode == "NOTSET" and "output_shape" not in attributes:
        return False
    pads = _pads(node, mode)
    if pads is None:
        return False
    attributes.pop("auto_pad", None)
    attributes.pop("output_shape", None)
    attributes.add(ir.AttrInt64s("pads", pads))
    return True


def _pads(node: ir.Node, mode: str) -> list[int] | None:
    kernel = kernel_of(node)
    sizes = _spatial_sizes(node, len(kernel))
    if mode == "VALID" and "output_shape" not in node.attributes:
        return [0] * 2 * len(kernel)
    if sizes is None:
        return None
    ones = (1,) * len(kernel)
    strides = node.attributes.get_ints("strides", ones)
    dilations = node.attributes.get_ints("dilations", ones)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if node.op_type == "ConvTranspose":
        return _pads_of_transpose(node, mode, sizes, strides, spans)
    totals = [
        max((-(-size // stride) - 1) * stride + span - size, 0)
        for size, stride, span in zip(sizes, strides, spans, strict=True)
    ]
    return _halves(totals, larger_first=_ONE_SIDE[mode])


def _pads_of_transpose(
    node: ir.Node, mode: str, sizes: Sequence[int], strides: Sequence[int], spans: Sequence[int]
) -> list[int] | None:
    """``total = stride * (in - 1) + output_padding + span - out``, as the ONNX operator defines.

    None where the output is larger than what padding can be cut from: there runtimes differ.
    """
    extra = node.attributes.get_ints("output_padding", (0,) * len(sizes))
    same = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    wanted = node.attributes.get_ints("output_shape", same)[-len(sizes) :]
    totals = [
        stride * (size - 1) + more + span - out
        for size, stride, span, more, out in zip(sizes, strides, spans, extra, wanted, strict=True)
    ]
    if min(totals) < 0:
        return None
    return _halves(totals, larger_first=mode != "SAME_UPPER")


def _halves(totals: Iterable[int], *, larger_first: bool) -> list[int]:
    small = [total // 2 for total in totals]
    large = [total - total // 2 for total in totals]
    return large + small if larger_first else small + large


def _spatial_sizes(node: ir.Node, count: int) -> list[int] | None:
    value = node.inputs[0]
    shape = value.shape if value is not None else None
    sizes = [dim for dim in tuple(shape or ())[2:] if isinstance(dim, int)]
    return sizes if len(sizes) == count else None
