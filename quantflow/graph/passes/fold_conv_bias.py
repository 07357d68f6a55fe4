"""A bias that is added behind a convolution, as the convolution's own.

Some exporters write it apart. As the bias of an INT8 layer it is an int32 constant, while an Add
behind the layer would be one more operation in fp16.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.weight_file import array_of
from quantflow.graph.edit import constant, give_constant


def fold_conv_bias(model: ir.Model) -> int:
    """Fold every Add of one constant a channel into the Conv or ConvTranspose before it.

    The convolution's result must have no other reader. Two biases are added in float64 and rounded
    to float32 once.
    """
    changed = 0
    for add in [node for node in model.graph if node.op_type == "Add"]:
        for side in (0, 1):
            value = add.inputs[side]
            layer = value.producer() if value is not None else None
            bias = _added_bias(layer, constant(add.inputs[1 - side])) if layer else None
            if layer is None or bias is None:
                continue
            layer.resize_inputs(3)
            give_constant(layer, 2, ir.tensor(bias, name=f"{layer.name}.bias"))
            ir.convenience.replace_nodes_and_values(
                model.graph, add, [add], [], [add.outputs[0]], [layer.outputs[0]]
            )
            changed += 1
            break
    return changed


def _added_bias(layer: ir.Node, added: ir.TensorProtocol | None) -> NDArray[np.float32] | None:
    """The layer's bias with `added` in it, ``(C,)``, or None where it cannot be in it."""
    if added is None or layer.op_type not in ("Conv", "ConvTranspose"):
        return None
    result, weight, old = layer.outputs[0], constant(layer.inputs[1]), (*layer.inputs, None)[2]
    own = constant(old)
    alone = len(result.uses()) == 1 and not result.is_graph_output()
    if not alone or weight is None or (own is None) != (old is None):
        return None
    channels = weight.shape.numpy()[0]
    if layer.op_type == "ConvTranspose":
        channels = weight.shape.numpy()[1] * layer.attributes.get_int("group", 1)
    if not _one_a_channel(added.shape.numpy(), channels, weight.shape.rank()):
        return None
    values = array_of(added).astype(np.float64).reshape(-1)
    before = array_of(own).astype(np.float64) if own is not None else np.zeros(channels)
    return (np.broadcast_to(values, (channels,)) + before).astype(np.float32)


def _one_a_channel(shape: Sequence[int], channels: int, rank: int) -> bool:
    """Whether a shape broadcasts along the channels, axis 1 of `rank`, and nothing else."""
    if len(shape) > rank:
        return False
    aligned = (1,) * (rank - len(shape)) + tuple(shape)
    return aligned[1] in (1, channels) and prod(aligned) == aligned[1]
