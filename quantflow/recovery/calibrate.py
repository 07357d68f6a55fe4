"""Ranges and integers of a model's layers, a few tensors at a time so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import onnx_ir as ir

from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.artifacts.ranges_record import RangesRecord, TensorRange
from quantflow.export.factors import layer_constants
from quantflow.graph.edit import constant, values_by_name
from quantflow.graph.kinds.table import groups_of
from quantflow.graph.layer_settings import LayerSettings
from quantflow.progress import Progress
from quantflow.ranges.choose_ranges import JUDGED_ROWS, choose_range, weights_of_layers
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.views import view_of
from quantflow.recovery.rebuild import Rebuilt, rebuild
from quantflow.recovery.recall import Recall

ROWS = 2048
"""Rows of a tensor that its layers are rebuilt on."""

BYTES = 512 * 2**20
"""What the sampled rows of the tensors that are looked at together may take."""

_TIE, _AWAY = 0.02, 0.1
"""How near to half a step is a tie, and by how much of a step the range is then made wider."""

REBUILT = ("MatMul", "Gemm", "Conv")
"""Op types whose integers are chosen by their output."""

Collect = Callable[[ir.Model, ModelRecord, Sequence[str], int], dict[str, TensorStatistics]]
"""Runs the calibration samples through a model: statistics of some of its tensors, with so many
sampled rows of each."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Ranges of all tensors, and rebuilt layers in the order of the record."""

    ranges: RangesRecord
    rebuilt: tuple[Rebuilt, ...]


def calibrate(
    model: ir.Model,
    record: ModelRecord,
    given: RangesRecord | None,
    settings: LayerSettings,
    collect: Collect,
    recall: Recall,
    progress: Progress,
    *,
    rebuilds: bool,
    rounding: bool,
) -> Calibrated:
    """Choose ranges, and what layers hold when they are INT8.

    Args:
        model, record: canonical.
        given: ranges that are known; None to choose them.
        settings: how tensors and layers are quantized.
        collect: runs the samples.
        recall: gives results that were noted before a kill.
        progress: called after every tensor.
        rebuilds: whether layers are rebuilt at all.
        rounding: whether their weights are rounded by the output.
    """
    ranges, found = dict[str, TensorRange](), dict[str, Rebuilt]()
    if given is not None:
        ranges = {entry.tensor: entry for entry in given.ranges}
    weight_of, done = weights_of_layers(model), 0
    own = _own_weights(model, record)
    rows = ROWS if rebuilds else JUDGED_ROWS
    for tensors in _rounds(model, record, rows):
        seen = collect(model, record, tensors, rows)
        for tensor in tensors:
            progress("ranges and weights", done, len(record.tensors))
            statistics = seen.pop(tensor)
            if given is None:
                few = {view: some[:JUDGED_ROWS] for view, some in statistics.rows.items()}
                judged = replace(statistics, rows=few)
                chosen = choose_range(record, tensor, weight_of, judged, settings)
                ranges[tensor] = off_ties(chosen)
            for layer in record.layers_of(tensor) if rebuilds else ():
                if layer.name in own and tensor in ranges:
                    result = _rebuild(
                        model, layer, statistics, ranges[tensor], settings, recall, rounding
                    )
                    found |= {layer.name: result} if result is not None else {}
            done += 1
    progress("ranges and weights", done, len(record.tensors))
    return Calibrated(
        RangesRecord(ranges=tuple(ranges[x] for x in record.tensors if x in ranges), nonfinite=()),
        tuple(found[x.name] for x in record.layers if x.name in found),
    )


def off_ties(chosen: TensorRange) -> TensorRange:
    """A range none of whose bounds lies halfway between two steps.

    Smoothing makes channels reach equally far, often to either side of zero: bounds of -127.5 and
    127.5 steps, which many values sit on, and which the last bit of a sum would round up or down.
    """
    scale = chosen.params.scale
    if chosen.symmetric or abs(abs(chosen.low / scale) % 1 - 0.5) > _TIE:
        return chosen
    return chosen.model_copy(update={"low": chosen.low - _AWAY * scale})


def _own_weights(model: ir.Model, record: ModelRecord) -> frozenset[str]:
    """Layers whose weight nothing else reads: those that share one share its integers as well."""
    values = values_by_name(model)
    return frozenset(
        x.name
        for x in record.layers
        if x.op_type in REBUILT and not x.float_reason and len(list(values[x.weight].uses())) == 1
    )


def _rounds(model: ir.Model, record: ModelRecord, rows: int) -> list[list[str]]:
    """The tensors in groups whose sampled rows fit into memory."""
    values = values_by_name(model)
    rounds: list[list[str]] = []
    taken = BYTES
    for tensor in record.tensors:
        layers = [x for x in record.layers_of(tensor) if x.weight]
        widths = {view_of(x): _width(values[x.weight], x) for x in layers}
        size = 4 * rows * sum(widths.values())
        if taken + size > BYTES or not rounds:
            rounds.append([])
            taken = 0
        rounds[-1].append(tensor)
        taken += size
    return rounds


def _width(weight: ir.Value, layer: Layer) -> int:
    """Numbers in a row that a layer reads."""
    tensor = constant(weight)
    assert tensor is not None
    shape = [int(x) for x in tensor.shape.numpy()]
    return prod(shape[1:]) * groups_of(layer) if layer.op_type == "Conv" else shape[0]


def _rebuild(
    model: ir.Model,
    layer: Layer,
    seen: TensorStatistics,
    chosen: TensorRange,
    settings: LayerSettings,
    recall: Recall,
    rounding: bool,
) -> Rebuilt | None:
    rows = seen.rows.get(view_of(layer))
    if rows is None or not len(rows):
        return None
    weight, bias = layer_constants(model, layer)
    return rebuild(
        layer.name,
        weight,
        bias,
        groups_of(layer),
        rows,
        chosen.params,
        settings.granularity[layer.name],
        recall,
        rounding=rounding,
    )
