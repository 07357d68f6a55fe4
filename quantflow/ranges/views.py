"""How layers read a tensor: what one row is that a weight multiplies.

A MatMul or Gemm reads vectors along the last axis, a convolution receptive fields, and a transposed
convolution pixels, which are receptive fields of one point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layer, Window

View = Window | None
"""None for vectors along the last axis, else the window of receptive fields (its groups are 1, as
rows hold all channels)."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is asked of a tensor by the layers that read it.

    Attributes:
        channel_axis: axis of its channels, -1 or 1.
        views: the different ways in which layers with a weight read it.
    """

    channel_axis: int = -1
    views: tuple[View, ...] = (None,)


@dataclass(frozen=True, slots=True)
class Reader:
    """A layer as a matrix product of rows.

    Attributes:
        weight: ``(G, K, N)`` float32: a row falls into G parts of length K, each of which is
            multiplied by a matrix of its own.
        taps: how many neighbouring columns belong to one output channel.
        per_channel: whether the weight has one scale per output channel.
    """

    weight: NDArray[np.float32]
    taps: int = 1
    per_channel: bool = True


def reading_of(layers: Sequence[Layer]) -> Reading:
    """What the layers that read one tensor ask of it; the first one tells where channels are."""
    spatial = bool(layers) and layers[0].window is not None
    views = dict.fromkeys(view_of(layer) for layer in layers if layer.weight)
    return Reading(channel_axis=1 if spatial else -1, views=tuple(views))


def view_of(layer: Layer) -> View:
    """How a layer with a weight reads its input."""
    if layer.window is None:
        return None
    if layer.op_type == "ConvTranspose":
        one = (1,) * len(layer.window.kernel)
        return Window(kernel=one, strides=one, dilations=one, pads=(0,) * 2 * len(one))
    return layer.window.model_copy(update={"groups": 1})


def reader(layer: Layer, weight: NDArray[np.float32], *, per_channel: bool) -> Reader:
    """A layer as a product of the rows of its view.

    Args:
        layer: with a weight.
        weight: of the shape that the layer's kind has, see `Layer`.
        per_channel: whether its scales are per output channel.
    """
    if layer.window is None:
        return Reader(weight[None], per_channel=per_channel)
    groups = layer.window.groups
    if layer.op_type == "ConvTranspose":
        taps = int(np.prod(weight.shape[2:]))
        grouped = weight.reshape(groups, len(weight) // groups, -1)
        return Reader(grouped, taps=taps, per_channel=per_channel)
    grouped = weight.reshape(groups, len(weight) // groups, -1).transpose(0, 2, 1)
    return Reader(grouped, per_channel=per_channel)
