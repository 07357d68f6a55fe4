"""The window that a convolution or pooling slides over its input."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from quantflow.artifacts.model_record import Window
from quantflow.graph.edit import constant


def window_of(node: ir.Node, kernel: Sequence[int] | None = None) -> Window | None:
    """Window of a Conv, ConvTranspose or AveragePool; None where it follows from unknown shapes.

    Args:
        node: the node.
        kernel: size of the kernel, for a node whose weight is not constant.
    """
    if node.attributes.get_string("auto_pad", "NOTSET") not in ("", "NOTSET"):
        return None
    if "output_shape" in node.attributes:
        return None
    kernel = kernel_of(node) if kernel is None else tuple(kernel)
    ones = (1,) * len(kernel)
    return Window(
        kernel=kernel,
        strides=tuple(node.attributes.get_ints("strides", ones)),
        dilations=tuple(node.attributes.get_ints("dilations", ones)),
        pads=tuple(node.attributes.get_ints("pads", (0,) * 2 * len(kernel))),
        groups=node.attributes.get_int("group", 1),
    )


def kernel_of(node: ir.Node) -> tuple[int, ...]:
    """Size of the kernel on every spatial axis: an attribute, or that of the weight."""
    weight = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    spatial = tuple(weight.shape.numpy()[2:]) if weight is not None else ()
    return tuple(node.attributes.get_ints("kernel_shape", spatial))
