"""Dividing a tensor's channels by a scale, and the layers that read it making up for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layer
from quantflow.artifacts.weight_file import array_of
from quantflow.graph.edit import all_values, constant, fresh_name, nodes_by_name, values_by_name
from quantflow.graph.kinds.table import groups_of
from quantflow.recovery.walk import Fold

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


def rescale(
    model: ir.Model, tensor: str, layers: Iterable[Layer], scale: Floats, fold: Fold | None
) -> None:
    """Divide a tensor's channels by a scale, in place; what the model computes stays the same.

    Args:
        model: canonical.
        tensor: name of the value.
        layers: those whose weights are multiplied, which are all that read it, or, without a fold,
            all that shall read the scaled one.
        scale: ``(K,)`` float32, positive; equal for channels of one class.
        fold: constants to divide; without it, a Mul is put between the tensor and the layers.
    """
    nodes = nodes_by_name(model)
    for layer in layers:
        node = nodes[layer.node]
        set_constant(model, node, 1, scaled_rows(constant_of(node, 1), layer, scale))
    if fold is None:
        _multiply(model, tensor, [nodes[layer.node] for layer in layers], scale)
        return
    apply_fold(model, fold, scale)


def can_apply(model: ir.Model, fold: Fold) -> bool:
    """Whether what is constant in the bucket is so in the canonical model."""
    nodes = nodes_by_name(model)
    return all(
        edit.node in nodes and constant(nodes[edit.node].inputs[edit.index]) is not None
        for edit in fold.edits
    )


def apply_fold(model: ir.Model, fold: Fold, scale: Floats) -> None:
    """Divide the constants of a fold, in place.

    Args:
        model: canonical.
        fold: of a bucket of it.
        scale: ``(K,)`` float32, positive; equal for channels of one class.
    """
    edit_constants(model, fold, np.multiply, 1 / scale.astype(np.float64), idle=1.0)


def edit_constants(
    model: ir.Model,
    fold: Fold,
    change: Callable[[Doubles, Doubles], Doubles],
    by: NDArray[np.floating],
    *,
    idle: float,
) -> None:
    """Change the constants of a fold, in place.

    Args:
        model: canonical.
        fold: of a bucket of it.
        change: of a constant by an array of its shape, or of one that it takes then.
        by: ``(K,)`` for every channel; equal for channels of one class.
        idle: what changes nothing.
    """
    nodes = nodes_by_name(model)
    by_class = np.full(fold.rest + 1, idle)
    by_class[fold.classes] = by
    for edit in fold.edits:
        node = nodes[edit.node]
        old = constant_of(node, edit.index)
        new = change(old.astype(np.float64), by_class[edit.ids]).astype(np.float32)
        while new.ndim > max(old.ndim, 1) and new.shape[0] == 1:
            new = new[0]
        set_constant(model, node, edit.index, new)


def scaled_rows(weight: Floats, layer: Layer, scale: Floats) -> Floats:
    """A layer's weight, multiplied along the channels that it reads.

    Args:
        weight: of the shape that the layer's kind has, see `Layer`.
        layer: whose weight it is.
        scale: ``(K,)`` one factor for every channel of the layer's input.
    """
    if layer.op_type != "Conv":  # channels come first
        return weight * scale.reshape(-1, *(1,) * (weight.ndim - 1))
    groups = groups_of(layer)
    grouped = weight.reshape(groups, -1, *weight.shape[1:])
    factors = scale.reshape(groups, 1, -1, *(1,) * (weight.ndim - 2))
    return (grouped * factors).reshape(weight.shape)


def set_constant(model: ir.Model, node: ir.Node, index: int, array: Floats) -> None:
    """Give a node another constant; one that nothing else reads keeps its name."""
    value = node.inputs[index]
    assert value is not None and value.name is not None
    array = np.ascontiguousarray(array, np.float32)
    if len(list(value.uses())) == 1 and not value.is_graph_output():
        value.const_value = ir.tensor(array, name=value.name)
        value.shape = ir.Shape(array.shape)
        return
    name = fresh_name(f"{node.name}/constant_{index}", values_by_name(model))
    own = ir.Value(
        name=name,
        shape=ir.Shape(array.shape),
        type=ir.TensorType(ir.DataType.FLOAT),
        const_value=ir.tensor(array, name=name),
    )
    model.graph.register_initializer(own)
    node.replace_input_with(index, own)


def constant_of(node: ir.Node, index: int) -> Floats:
    """The float32 constant that is an input of a node."""
    tensor = constant(node.inputs[index])
    assert tensor is not None
    return np.asarray(array_of(tensor), np.float32)


def _multiply(model: ir.Model, tensor: str, readers: list[ir.Node], divisor: Floats) -> None:
    """Put a Mul between a tensor, whose channels are on the last axis, and some of its readers."""
    values = values_by_name(model)
    value, factor = values[tensor], (1 / divisor).astype(np.float32)
    taken = {str(x.name) for x in all_values(model.graph)} | set(nodes_by_name(model))
    name = fresh_name(f"{tensor}/smoothing", taken)
    scale = ir.Value(
        name=f"{name}/factor",
        shape=ir.Shape(factor.shape),
        type=ir.TensorType(ir.DataType.FLOAT),
        const_value=ir.tensor(factor, name=f"{name}/factor"),
    )
    model.graph.register_initializer(scale)
    node = ir.node("Mul", [value, scale], name=name)
    node.outputs[0].name = f"{name}/output"
    node.outputs[0].shape, node.outputs[0].type = value.shape, value.type
    first = min(readers, key=list(model.graph).index)
    model.graph.insert_before(first, node)
    for reader in readers:
        for index, read in enumerate(reader.inputs):
            if read is value:
                reader.replace_input_with(index, node.outputs[0])
