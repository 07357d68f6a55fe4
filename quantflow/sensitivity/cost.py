"""What a plan costs to run, estimated: multiply-accumulates, and every boundary of an INT8 layer.

No machine is asked. The cube unit of a Da Vinci core does twice as many INT8 as fp16
multiply-accumulates in a cycle (8,192 and 4,096), so one in fp16 counts as two. Every element that
is quantized before or dequantized after an INT8 layer counts as `boundary_macs` of INT8: the vector
unit takes 128 elements a cycle, which is 64 where each is a pass of its own, and nothing where the
compiler lets the cube unit's output stage do it. A thin layer may so cost more in INT8 than in fp16
(C45).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.graph.edit import values_by_name

FP16_MACS = 2
"""INT8 multiply-accumulates that take as long as one in fp16."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """The cost of every group in either precision, in INT8 multiply-accumulates of a batch.

    Attributes:
        int8, fp16: by group.
        float_layers: of layers that are never INT8.
    """

    int8: Mapping[str, float]
    fp16: Mapping[str, float]
    float_layers: float

    def of(self, fp16_groups: Collection[str]) -> float:
        """Cost of a plan relative to everything in fp16, which is 1; 1 where nothing costs."""
        total = sum(self.fp16.values()) + self.float_layers
        costs = [self.fp16[x] if x in fp16_groups else self.int8[x] for x in self.int8]
        return (sum(costs) + self.float_layers) / total if total else 1.0

    def saved(self, group: str) -> float:
        """What a group's INT8 saves; negative where its boundaries cost more."""
        return self.fp16[group] - self.int8[group]


def cost_model(model: ir.Model, record: ModelRecord, boundary_macs: float) -> CostModel:
    """Count multiply-accumulates and boundaries.

    Args:
        model: a bucket of the canonical model, static shapes.
        record: its layers and groups.
        boundary_macs: INT8 multiply-accumulates that one element at a boundary costs.
    """
    values = values_by_name(model)
    batch = _size(values.get(record.inputs[0].name), 1)
    layers = {layer.name: layer for layer in record.layers}
    int8, fp16 = dict[str, float](), dict[str, float]()
    for group in record.groups:
        members = [layers[name] for name in group.layers]
        read = dict.fromkeys([group.tensor, *(x.second_input for x in members if x.second_input)])
        crossing = [*read, *(layer.output for layer in members)]
        elements = sum(_size(values.get(name)) for name in crossing)
        int8[group.name] = batch * group.macs + boundary_macs * elements
        fp16[group.name] = FP16_MACS * batch * group.macs
    grouped = {name for group in record.groups for name in group.layers}
    alone: list[Layer] = [layer for layer in record.layers if layer.name not in grouped]
    return CostModel(int8, fp16, float(FP16_MACS * batch * sum(layer.macs for layer in alone)))


def _size(value: ir.Value | None, axes: int | None = None) -> int:
    """Elements of a value, or of its first axes; 0 where its shape is not known."""
    if value is None or value.shape is None:
        return 0
    return prod(d if isinstance(d, int) else 0 for d in list(value.shape)[:axes])
