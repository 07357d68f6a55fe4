"""The integer arithmetic of a layer written out in numpy, for comparing with what ran.

In float64, which holds every partial sum exactly: all stay far below 2^53.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Window
from quantflow.errors import fail
from quantflow.graph.window import window_of

Array = NDArray[np.float64]

_COLUMNS = 1024


def exact_product(
    node: ir.Node,
    steps: Sequence[Array],
    weight: NDArray[np.int8] | None,
    bias: NDArray[np.int32] | None,
) -> Array:
    """What a layer's accumulator must hold.

    Args:
        node: the layer's node, for its attributes; explicit pads.
        steps: activations less their zero point; one array, or two for a product of two.
        weight: weight in its own shape, or None.
        bias: ``(N,)`` or None.
    """
    if node.op_type in ("MatMul", "Gemm"):
        total = steps[0] @ steps[1] if weight is None else _by_columns(steps[0], weight)
        return total if bias is None else total + bias
    integers = None if weight is None else weight.astype(np.float64)
    return _windowed(node, steps[0], integers, bias)


def _windowed(
    node: ir.Node, x: Array, weight: Array | None, bias: NDArray[np.int32] | None
) -> Array:
    window = window_of(node, None if weight is None else weight.shape[2:])
    if window is None:
        fail("QF543", "the padding of a layer is not written out", where=str(node.name))
    if node.op_type == "ConvTranspose":
        assert weight is not None
        extra = node.attributes.get_ints("output_padding", (0,) * len(window.kernel))
        total = _convolve_transposed(x, weight, window, extra)
    elif node.op_type == "AveragePool":
        ones = np.ones((x.shape[1], 1, *window.kernel))
        total = _convolve(x, ones, window.model_copy(update={"groups": x.shape[1]}))
    else:
        assert weight is not None
        total = _convolve(x, weight, window)
    return total if bias is None else total + bias.reshape(-1, *(1,) * (total.ndim - 2))


def _by_columns(x: Array, weight: NDArray[np.int8]) -> Array:
    """``x @ weight``, of which some columns at a time are in float64."""
    starts = range(0, weight.shape[-1], _COLUMNS)
    parts = [x @ weight[..., i : i + _COLUMNS].astype(np.float64) for i in starts]
    return np.concatenate(parts, axis=-1)


def _taps(window: Window) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every position in the kernel, and how far from the window's corner it reads."""
    for tap in product(*map(range, window.kernel)):
        yield tap, tuple(i * d for i, d in zip(tap, window.dilations, strict=True))


def _convolve(x: Array, weight: Array, window: Window) -> Array:
    """``y[n, p] = sum_c sum_t w[n, c, t] x[c, p * stride + t * dilation]``, zeros outside."""
    count = len(window.kernel)
    pads = [(0, 0), (0, 0), *zip(window.pads[:count], window.pads[count:], strict=True)]
    padded = np.pad(x, pads)
    spans = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilations, strict=True)]
    sizes = [
        (size - span) // stride + 1
        for size, span, stride in zip(padded.shape[2:], spans, window.strides, strict=True)
    ]
    batch, groups, channels = len(x), window.groups, x.shape[1]
    grouped = _grouped(weight, groups)
    total = np.zeros((batch, groups, len(weight) // groups, int(np.prod(sizes))))
    columns = np.empty((batch, channels, *sizes))
    for tap, offset in _taps(window):
        np.copyto(columns, padded[(..., *_positions(offset, sizes, window.strides))])
        seen = columns.reshape(batch, groups, channels // groups, -1)
        kernel = grouped[(..., *tap)]
        # A product of one by one matrices is a multiplication, and much faster as one.
        total += kernel * seen if channels == groups else kernel @ seen
    return total.reshape(batch, -1, *sizes)


def _convolve_transposed(x: Array, weight: Array, window: Window, extra: Sequence[int]) -> Array:
    """``y[n, p * stride + t] += sum_c w[c, n, t] x[c, p]``, then the pads are cut off."""
    count, sizes = len(window.kernel), x.shape[2:]
    full = [
        (size - 1) * stride + (k - 1) * d + 1 + more
        for size, stride, k, d, more in zip(
            sizes, window.strides, window.kernel, window.dilations, extra, strict=True
        )
    ]
    batch, groups = len(x), window.groups
    columns = x.reshape(batch, groups, x.shape[1] // groups, -1)
    total = np.zeros((batch, groups * weight.shape[1], *full))
    for tap, offset in _taps(window):
        kernel = _grouped(weight, groups)[(..., *tap)].swapaxes(-1, -2)
        added = (kernel @ columns).reshape(batch, -1, *sizes)
        total[(..., *_positions(offset, sizes, window.strides))] += added
    ends = [size - pad for size, pad in zip(full, window.pads[count:], strict=True)]
    kept = (slice(start, end) for start, end in zip(window.pads[:count], ends, strict=True))
    return total[(..., *kept)]


def _positions(
    offset: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> Iterator[slice]:
    """``offset, offset + stride, ...`` on every spatial axis."""
    for start, size, stride in zip(offset, sizes, strides, strict=True):
        yield slice(start, start + (size - 1) * stride + 1, stride)


def _grouped(weight: Array, groups: int) -> Array:
    """A leading axis of groups instead of a first axis that holds all of them."""
    return weight.reshape(groups, len(weight) // groups, *weight.shape[1:])
