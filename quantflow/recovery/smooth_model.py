"""Smoothing of a whole model: every tensor in turn, the last one first.

A tensor's scale goes into constants further up, which may be the columns of another layer's weight;
so that layer is looked at when its columns are what they will be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.artifacts.optimize_record import SmoothedTensor
from quantflow.graph.edit import copy_model, nodes_by_name, values_by_name
from quantflow.graph.kinds.table import channel_axis
from quantflow.graph.layer_settings import LayerSettings
from quantflow.progress import Progress, no_progress
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.views import Reader, reader
from quantflow.recovery.fold import find_fold
from quantflow.recovery.query_key import balance
from quantflow.recovery.recall import Recall
from quantflow.recovery.rescale import can_apply, constant_of, rescale
from quantflow.recovery.smoothing import Channels, Smoothed, smooth
from quantflow.recovery.walk import Fold

Floats = NDArray[np.float32]

MIN_GAIN = 0.05
"""Least relative fall of a tensor's error for which it is smoothed."""

MIN_GAIN_OF_MULTIPLY = 0.5
"""The same where a Mul is added: it has to be worth an operator."""


@dataclass(frozen=True, slots=True)
class Smoothing:
    """A smoothed model.

    Attributes:
        model: the model.
        tensors: that were smoothed, in graph order.
        balanced: products whose queries and keys were balanced.
    """

    model: ir.Model
    tensors: tuple[SmoothedTensor, ...]
    balanced: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return bool(self.tensors or self.balanced)


def smooth_model(
    model: ir.Model,
    static: ir.Model,
    record: ModelRecord,
    seen: Mapping[str, TensorStatistics],
    settings: LayerSettings,
    *,
    multiply: bool,
    recall: Recall,
    progress: Progress = no_progress,
) -> Smoothing:
    """Scale the channels of every tensor so that the layers that read it lose least.

    Args:
        model: canonical; not changed.
        static: a bucket of it, which tells shapes.
        record: its layers and tensors.
        seen: statistics of the tensors, with sampled rows.
        settings: how they are quantized.
        multiply: whether a Mul may be added where no constant can take the scale.
        recall: gives results that were noted before a kill.
        progress: called after every tensor.
    """
    result, values = copy_model(model), values_by_name(static)
    coarse = {x.node for x in record.layers if settings.granularity.get(x.name) == "per-tensor"}
    balanced = balance(result, static, coarse.__contains__)
    done = list[SmoothedTensor]()
    for number, tensor in enumerate(reversed(record.tensors)):
        progress("smoothing", number, len(record.tensors))
        entry = _smooth_tensor(
            result, values.get(tensor), record, tensor, seen[tensor], settings, multiply, recall
        )
        done += [entry] if entry is not None else []
    progress("smoothing", len(record.tensors), len(record.tensors))
    return Smoothing(result, tuple(reversed(done)), tuple(balanced))


def _smooth_tensor(
    model: ir.Model,
    value: ir.Value | None,
    record: ModelRecord,
    tensor: str,
    seen: TensorStatistics,
    settings: LayerSettings,
    multiply: bool,
    recall: Recall,
) -> SmoothedTensor | None:
    layers = record.layers_of(tensor)
    if value is None or not layers or not all(x.weight for x in layers) or len(seen.rows) != 1:
        return None
    axis, count = channel_axis(layers[0]), len(seen.channel_absmax)
    fold = find_fold(value, axis, frozenset(x.node for x in layers))
    if fold is not None and not can_apply(model, fold):
        fold = None
    ways: list[Fold | None] = [fold] if fold is not None else []
    if multiply and axis == -1 and (fold is None or fold.rest < count):
        ways.append(None)  # a Mul scales every channel by itself
    (rows,) = seen.rows.values()
    if not ways or not len(rows):
        return None
    channels = _channels(rows, seen.channel_absmax)
    readers = [_reader(model, layer, settings) for layer in layers]
    for way in ways:
        classes = np.arange(count) if way is None else way.classes
        how = "multiplied" if way is None else "folded"
        search = partial(
            smooth, channels, readers, classes, symmetric=settings.tensors[tensor].symmetric
        )
        found = _recalled(recall, f"smoothing, {how}\n{tensor}", search)
        if found is None or found.gain < (MIN_GAIN_OF_MULTIPLY if way is None else MIN_GAIN):
            continue
        rescale(model, tensor, layers, found.scale, way)
        return SmoothedTensor(
            tensor=tensor,
            group=record.group_of(tensor),
            how=how,
            scale=found.name,
            error_before=found.before,
            error_after=found.after,
        )
    return None


def _recalled(recall: Recall, key: str, search: Callable[[], Smoothed | None]) -> Smoothed | None:
    """What a search found, now or before a kill."""

    def noted() -> dict[str, Any] | None:
        found = search()
        return None if found is None else {**asdict(found), "scale": found.scale.tolist()}

    entry = recall(key, noted)
    if entry is None:
        return None
    scale = np.array(entry["scale"], np.float32)
    return Smoothed(entry["name"], scale, entry["before"], entry["after"])


def _channels(rows: Floats, absmax: Floats) -> Channels:
    """Extremes of every channel: the larger magnitude as seen on all samples, the other side's on
    the sampled rows."""
    by_channel = rows.reshape(len(rows), len(absmax), -1)
    low = np.minimum(by_channel.min(axis=(0, 2), initial=0), 0)
    high = np.maximum(by_channel.max(axis=(0, 2), initial=0), 0)
    below = -low > high
    return Channels(
        rows, np.where(below, -absmax, low), np.where(below, high, np.maximum(high, absmax))
    )


def _reader(model: ir.Model, layer: Layer, settings: LayerSettings) -> Reader:
    weight = constant_of(nodes_by_name(model)[layer.node], 1)
    per_channel = settings.granularity[layer.name] == "per-channel"
    return reader(layer, weight, per_channel=per_channel)
