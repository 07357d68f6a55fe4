"""What a quantized file says of every layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from quantflow.graph.edit import constant
from quantflow.graph.names import LAYER_OPS
from quantflow.graph.quantized.activations import FLOAT_INPUT, activation_of
from quantflow.graph.quantized.constants import quantized_constant
from quantflow.graph.quantized.to_float import Removed
from quantflow.graph.quantized.weights import FLOAT_WEIGHT, WeightScales, weight_of
from quantflow.numerics.quantize import QuantParams

FLOAT = "it is float in the quantized file"


@dataclass(frozen=True, slots=True)
class FileLayer:
    """A layer that is INT8 in the file, in a form that Ascend computes."""

    params: QuantParams
    weight: WeightScales


@dataclass(frozen=True, slots=True)
class FileQuantization:
    """How a file is quantized.

    Attributes:
        layers: by the name of the layer's node, or why the layer cannot stay INT8.
        removed: what was taken out of the graph.
        origin: the program that wrote the file, as it calls itself.
    """

    layers: Mapping[str, FileLayer | str]
    removed: Removed
    origin: str

    @property
    def notes(self) -> list[str]:
        """What a person should know."""
        by = f" by {self.origin}" if self.origin else ""
        notes = [f"quantized{by}: {self.removed.nodes} QuantizeLinear and DequantizeLinear read"]
        if self.removed.activations:
            count = len(self.removed.activations)
            notes.append(f"Relu or Relu6 that quantization stood for put back ({count}x)")
        notes += [f"{x!r} at the model's boundary is kept" for x in self.removed.boundary]
        return notes


def file_layers(model: ir.Model) -> dict[str, FileLayer | str]:
    """Every layer of a QDQ model by the name of its node, or why it cannot be INT8 as it is there.

    Raises:
        QuantflowError: QF230 for scales that are not constant.
    """
    return {
        str(node.name): _layer(node, model)
        for node in model.graph
        if node.op_type in LAYER_OPS and len(node.inputs) > 1 and _has_weight(node, model)
    }


def _has_weight(node: ir.Node, model: ir.Model) -> bool:
    weight = node.inputs[1]
    return constant(weight) is not None or quantized_constant(weight, model) is not None


def _layer(node: ir.Node, model: ir.Model) -> FileLayer | str:
    params, weight = activation_of(node.inputs[0]), weight_of(node, model)
    if params == FLOAT_INPUT and weight == FLOAT_WEIGHT:
        return FLOAT
    if isinstance(params, str):
        return params
    if isinstance(weight, str):
        return weight
    return FileLayer(params, weight)
