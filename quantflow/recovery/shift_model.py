"""Shifting of a whole model: every tensor that takes a narrower range with its channels centred.

Nothing but addends changes, so that statistics and weights stay those of the model that came,
whatever was shifted before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.optimize_record import ShiftedTensor
from quantflow.graph.edit import copy_model, values_by_name
from quantflow.graph.kinds.table import channel_axis
from quantflow.ranges.collect import TensorStatistics
from quantflow.recovery.shift import apply_shift, find_shift
from quantflow.recovery.walk import Fold

Floats = NDArray[np.float32]

MIN_FALL = 0.05
"""Least relative fall of what a range has to hold."""


@dataclass(frozen=True, slots=True)
class Shifting:
    """A shifted model.

    Attributes:
        model: the model.
        tensors: that were shifted, in graph order.
    """

    model: ir.Model
    tensors: tuple[ShiftedTensor, ...]


def shift_model(
    model: ir.Model,
    static: ir.Model,
    record: ModelRecord,
    seen: Mapping[str, TensorStatistics],
) -> Shifting:
    """Take the middle off every channel of every tensor that this serves.

    Args:
        model: canonical; not changed.
        static: a bucket of it, which tells shapes.
        record: its layers and tensors.
        seen: statistics of the tensors.
    """
    result, values = copy_model(model), values_by_name(static)
    done = list[ShiftedTensor]()
    for tensor in record.tensors:
        layers, value = record.layers_of(tensor), values.get(tensor)
        low, high = seen[tensor].channel_low, seen[tensor].channel_high
        if value is None or not layers or not np.isfinite(low).all():
            continue
        shift = find_shift(result, value, channel_axis(layers[0]), layers)
        if shift is None:
            continue
        addend = _middle(low, high, shift.source)
        before, after = _span(low, high), _span(low - addend, high - addend)
        if after >= (1 - MIN_FALL) * before:
            continue
        apply_shift(result, shift, layers, addend)
        group = record.group_of(tensor)
        done.append(ShiftedTensor(tensor=tensor, group=group, span_before=before, span_after=after))
    return Shifting(result, tuple(done))


def _middle(low: Floats, high: Floats, fold: Fold) -> Floats:
    """``(K,)`` the middle between the ends of every channel's class."""
    least, greatest = np.full(fold.rest, np.inf), np.full(fold.rest, -np.inf)
    np.minimum.at(least, fold.classes, low)
    np.maximum.at(greatest, fold.classes, high)
    return ((least + greatest) / 2)[fold.classes].astype(np.float32)


def _span(low: Floats, high: Floats) -> float:
    """What a range has to hold, which is 0 as well."""
    return float(high.max(initial=0)) - float(low.min(initial=0))
