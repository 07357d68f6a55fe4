"""Ascend's INT8 dialect in numpy: what a deploy file says, worked out from the file alone.

Integers are int64 here, so that nothing can overflow unseen. Convolutions are made of windows that
are gathered first, padded at the zero point, and the zero point is compensated for after the sum
(``sum(w * q) - z * sum(w)``), which is neither how onnxruntime nor how quantflow computes them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
from numpy.lib.stride_tricks import sliding_window_view

from tests.export.builders import ascend_dequant, ascend_quant

Values = dict[str, np.ndarray]


def interpret(deploy: ir.Model, known: Mapping[str, np.ndarray], *, fp19: bool = False) -> Values:
    """Every value of a deploy model, by name.

    Args:
        deploy: a deploy model.
        known: its inputs, and the outputs of float layers, whose last bits depend on who adds.
        fp19: whether dequantization scales lose their low mantissa bits.
    """
    values = {
        name: tensor.const_value.numpy() for name, tensor in deploy.graph.initializers.items()
    }
    values |= known
    for node in deploy.graph:
        (output,) = node.outputs
        if output.name in values:
            continue
        inputs = [values[value.name] if value is not None else None for value in node.inputs]
        values[output.name] = _evaluate(node, inputs, fp19)
    return values


def _evaluate(node: ir.Node, inputs: list[np.ndarray | None], fp19: bool) -> np.ndarray:
    x = inputs[0]
    if node.op_type == "AscendQuant":
        scale, offset = (node.attributes[name].value for name in ("scale", "offset"))
        return ascend_quant(x, scale, offset)
    if node.op_type == "AscendDequant":
        return _dequantize(node, x, inputs[1], fp19)
    if x.dtype == np.int64:
        total = x + inputs[1] if node.op_type == "Add" else accumulate(node, inputs)
        assert np.abs(total).max(initial=0) < 2**31, node.name
        return total
    return _float(node, inputs)


def _float(node: ir.Node, inputs: list[np.ndarray | None]) -> np.ndarray:
    """Float operators that have one exact answer."""
    x, *others = inputs
    match node.op_type:
        case "Relu":
            return np.maximum(x, np.float32(0))
        case "Clip":
            return np.clip(x, *(bound for bound in others if bound is not None))
        case "Add":
            return x + others[0]
        case "Mul":
            return x * others[0]
        case "Transpose":
            return np.transpose(x, node.attributes["perm"].value)
        case "Reshape":
            return x.reshape(others[0])
        case "Flatten":
            return x.reshape(len(x), -1)
        case "Identity":
            return x
    raise NotImplementedError(node.op_type)


def quant_behind(node: ir.Node, index: int = 0) -> ir.Node:
    """The AscendQuant that makes an int8 input."""
    quant = node.inputs[index].producer()
    assert quant.op_type == "AscendQuant"
    return quant


def accumulate(node: ir.Node, inputs: list[np.ndarray | None]) -> np.ndarray:
    """int32 of an int8 layer, without the bias that an Add of its own brings."""
    q, weight, bias = (*inputs, None, None)[:3]
    zero_point = int(quant_behind(node).attributes["offset"].value)
    if weight is not None:
        weight = weight.astype(np.int64)
    if node.op_type in ("MatMul", "Gemm") and node.inputs[1].producer() is not None:
        assert zero_point == int(quant_behind(node, 1).attributes["offset"].value) == 0
    total = product(node, q, weight, zero_point)
    if bias is None:
        return total
    return total + bias.reshape(-1, *(1,) * (total.ndim - 2))


def product(node: ir.Node, q: np.ndarray, weight: np.ndarray | None, zero_point: int = 0):
    """What a layer multiplies and sums, for arrays of any type; an AveragePool only sums."""
    if node.op_type in ("MatMul", "Gemm"):
        return q @ weight - zero_point * weight.sum(axis=-2, keepdims=weight.ndim > 2)
    window = window_attributes(node, weight)
    if node.op_type == "AveragePool":
        assert not any(window["pads"]) or node.attributes["count_include_pad"].value
        weight = np.ones((q.shape[1], 1, *window["kernel"]), q.dtype)
        window["group"] = q.shape[1]
    function = conv_transpose if node.op_type == "ConvTranspose" else conv
    return function(q, weight, zero_point, **window)


def window_attributes(node: ir.Node, weight: np.ndarray | None) -> dict:
    """Kernel, strides and so on of a node, with their defaults."""
    given = {name: attribute.value for name, attribute in node.attributes.items()}
    assert given.get("auto_pad", "NOTSET") == "NOTSET" and "output_shape" not in given
    kernel = given["kernel_shape"] if weight is None else weight.shape[2:]
    ones = (1,) * len(kernel)
    found = {
        "kernel": kernel,
        "strides": given.get("strides", ones),
        "dilations": given.get("dilations", ones),
        "pads": given.get("pads", (0,) * 2 * len(kernel)),
        "group": given.get("group", 1),
    }
    if node.op_type == "ConvTranspose":
        found["output_padding"] = given.get("output_padding", (0,) * len(kernel))
    return found


def conv(q, w, zero_point, *, kernel, strides, dilations, pads, group):
    """``(B, C, ...)`` with ``(N, C / group, ...)``, padded at the zero point."""
    count = len(kernel)
    padded = np.pad(
        q, [(0, 0), (0, 0), *zip(pads[:count], pads[count:], strict=True)],
        constant_values=zero_point,
    )  # fmt: skip
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    windows = sliding_window_view(padded, spans, axis=tuple(range(2, 2 + count)))
    strided = (*(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilations))
    windows = windows[(slice(None), slice(None), *strided)]
    inner, width = w.shape[1], len(w) // group
    results = []
    for g in range(group):
        own, kernels = windows[:, g * inner : (g + 1) * inner], w[g * width : (g + 1) * width]
        axes = (1, *range(2 + count, 2 + 2 * count)), tuple(range(1, 2 + count))
        total = np.tensordot(own, kernels, axes)
        compensation = zero_point * kernels.reshape(width, -1).sum(axis=1)
        results.append(np.moveaxis(total - compensation, -1, 1))
    return np.concatenate(results, axis=1)


def conv_transpose(q, w, zero_point, *, kernel, strides, dilations, pads, group, output_padding):
    """A convolution with the kernel turned round, over the input with gaps at the zero point."""
    count = len(kernel)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    shape = [(size - 1) * s + 1 for size, s in zip(q.shape[2:], strides, strict=True)]
    gaps = np.full((*q.shape[:2], *shape), zero_point, q.dtype)
    gaps[(..., *(slice(None, None, s) for s in strides))] = q
    channels = len(w)
    turned = np.concatenate([
        np.swapaxes(w[g * channels // group : (g + 1) * channels // group], 0, 1)
        for g in range(group)
    ])[(..., *(slice(None, None, -1),) * count)]  # fmt: skip
    around = [span - 1 for span in spans] + [
        span - 1 + more for span, more in zip(spans, output_padding, strict=True)
    ]
    full = conv(
        gaps, turned, zero_point, kernel=kernel, strides=(1,) * count, dilations=dilations,
        pads=around, group=group,
    )  # fmt: skip
    ends = [size - pad for size, pad in zip(full.shape[2:], pads[count:], strict=True)]
    return full[(..., *(slice(a, b) for a, b in zip(pads[:count], ends, strict=True)))]


def _dequantize(node: ir.Node, accumulator: np.ndarray, packed: np.ndarray, fp19: bool):
    assert node.attributes["dtype"].value == 0
    layer = node.inputs[0].producer()
    if layer.op_type in ("Conv", "ConvTranspose") and packed.size > 1:
        packed = packed.reshape(-1, *(1,) * (accumulator.ndim - 2))
    if layer.op_type != "AveragePool":
        return ascend_dequant(accumulator, packed, fp19=fp19)
    # Ascend's own arithmetic is not verified; quantflow divides the scale by the window's size.
    area = np.float32(np.prod(layer.attributes["kernel_shape"].value))
    scale = ascend_dequant(np.ones(1), packed, fp19=fp19) / area
    return accumulator.astype(np.float32) * scale
