"""Convolutions of all kinds, run by onnxruntime, for the tests of how layers read a tensor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from quantflow.artifacts.model_record import Layer, Window
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner

Floats = NDArray[np.float32]


def layer(
    op_type: str,
    weight: tuple[int, ...],
    *,
    name: str = "layer",
    strides: tuple[int, ...] | None = None,
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    groups: int = 1,
) -> Layer:
    """A layer that reads `x` with a weight of some shape."""
    rank = len(weight) - 2
    window = Window(
        kernel=weight[2:],
        strides=strides or (1,) * rank,
        dilations=dilations or (1,) * rank,
        pads=pads or (0,) * 2 * rank,
        groups=groups,
    )
    return Layer(
        name=name,
        node=name,
        op_type=op_type,
        role="conv",
        group="x",
        input="x",
        weight="w",
        bias=None,
        bias_node=None,
        output="y",
        macs=1,
        window=window,
    )


KINDS: dict[str, tuple[Layer, tuple[int, ...], tuple[int, ...]]] = {
    "1-D": (layer("Conv", (5, 3, 4), strides=(2,), pads=(2, 1)), (3, 11), (5, 3, 4)),
    "2-D": (layer("Conv", (4, 3, 3, 3), pads=(1, 1, 1, 1)), (3, 6, 5), (4, 3, 3, 3)),
    "strided, dilated, pads of all sizes": (
        layer("Conv", (4, 2, 3, 2), strides=(2, 3), dilations=(2, 1), pads=(3, 0, 1, 2)),
        (2, 9, 8),
        (4, 2, 3, 2),
    ),
    "pointwise": (layer("Conv", (6, 5, 1, 1)), (5, 4, 4), (6, 5, 1, 1)),
    "grouped": (layer("Conv", (6, 2, 3, 3), groups=3), (6, 5, 5), (6, 2, 3, 3)),
    "depthwise": (
        layer("Conv", (4, 1, 3, 3), groups=4, pads=(1, 1, 1, 1), strides=(2, 2)),
        (4, 7, 7),
        (4, 1, 3, 3),
    ),
    "3-D": (layer("Conv", (3, 2, 2, 3, 2), pads=(0, 1, 1, 1, 1, 0)), (2, 4, 4, 4), (3, 2, 2, 3, 2)),
}
"""Layer, shape of a sample without the batch, and shape of the weight."""


def convolve(one: Layer, images: Floats, weight: Floats) -> Floats:
    """What onnxruntime makes of ``(n, C, ...)`` images."""
    assert one.window is not None
    window = one.window
    graph = helper.make_graph(
        [
            helper.make_node(
                one.op_type,
                ["x", "w"],
                ["y"],
                strides=window.strides,
                dilations=window.dilations,
                pads=window.pads,
                group=window.groups,
            )
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, images.shape),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, weight.shape),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    runner = OnnxRuntimeRunner(model.SerializeToString())
    return runner.run({"x": images, "w": weight})["y"]


def draw(shape: tuple[int, ...], seed: int) -> Floats:
    """Normal values with a few that stand out."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape).astype(np.float32)
    values[rng.random(shape) < 0.02] *= 8
    return values
