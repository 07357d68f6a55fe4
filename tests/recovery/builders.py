"""Static graphs with their layers, and dividing a tensor of them by a scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.graph.edit import copy_model, values_by_name, with_outputs
from quantflow.graph.kinds.table import channel_axis
from quantflow.graph.layers import describe_model
from quantflow.recovery.fold import find_fold
from quantflow.recovery.rescale import rescale
from quantflow.recovery.shift import Shift, apply_shift, find_shift
from quantflow.recovery.walk import Fold
from tests.graph.models import Arrays, build, rand, run


@dataclass(frozen=True)
class Graph:
    """A model of fixed shapes, the record of its layers, and something to run it on."""

    model: ir.Model
    record: ModelRecord
    feeds: Mapping[str, np.ndarray]

    def layers(self, tensor: str) -> list[Layer]:
        return self.record.layers_of(tensor)

    def fold(self, tensor: str) -> Fold | None:
        """How the tensor can be divided so that its layers make up for it."""
        layers = self.layers(tensor)
        assert layers, f"no layer reads {tensor}"
        value = values_by_name(self.model)[tensor]
        return find_fold(value, channel_axis(layers[0]), frozenset(x.node for x in layers))

    def shift(self, tensor: str) -> Shift | None:
        """How an addend of every channel can be taken off the tensor."""
        layers = self.layers(tensor)
        assert layers, f"no layer reads {tensor}"
        value = values_by_name(self.model)[tensor]
        return find_shift(self.model, value, channel_axis(layers[0]), layers)

    def shifted(self, tensor: str, addend: np.ndarray, shift: Shift) -> Graph:
        """A copy in which the addend is taken off the tensor."""
        copy = copy_model(self.model)
        apply_shift(copy, shift, self.layers(tensor), addend)
        return Graph(copy, self.record, self.feeds)

    def scaled(self, tensor: str, scale: np.ndarray, fold: Fold | None) -> Graph:
        """A copy in which the tensor is divided by a scale."""
        copy = copy_model(self.model)
        rescale(copy, tensor, self.layers(tensor), scale, fold)
        return Graph(copy, self.record, self.feeds)

    def outputs(self, *tensors: str) -> dict[str, np.ndarray]:
        """The model's outputs and some of its tensors, as onnxruntime computes them."""
        return run(with_outputs(self.model, tensors, keep=True), self.feeds)


def graph(text: str, weights: Arrays) -> Graph:
    """A model from text; its inputs are filled with normal values."""
    proto = onnx.shape_inference.infer_shapes(build(text, weights), data_prop=True)
    onnx.checker.check_model(proto, full_check=True)
    model = ir.from_proto(proto)
    assert all(x.shape is not None and x.shape.is_static() for x in values_by_name(model).values())
    feeds = {
        str(value.name): rand(*value.shape.numpy(), seed=number)  # type: ignore[union-attr]
        for number, value in enumerate(model.graph.inputs)
    }
    return Graph(model, describe_model(model, {}, mask=None, notes=[]), feeds)


def along_channels(scale: np.ndarray, array: np.ndarray, axis: int) -> np.ndarray:
    """The scale, of a shape that multiplies an array along its channels."""
    return scale.reshape([-1 if i == axis % array.ndim else 1 for i in range(array.ndim)])
