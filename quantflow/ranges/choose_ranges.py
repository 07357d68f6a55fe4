"""The range of every quantizable tensor, and what all candidates would do to it on both splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layer, ModelRecord
from quantflow.artifacts.ranges_record import ClippingRow, Split, TensorRange
from quantflow.artifacts.record import Record
from quantflow.artifacts.weight_file import array_of
from quantflow.graph.edit import constant, values_by_name
from quantflow.graph.layer_settings import LayerSettings, TensorSettings
from quantflow.numerics.quantize import QuantParams
from quantflow.progress import Progress, no_progress
from quantflow.ranges.auto import Trial
from quantflow.ranges.clipping import Subject, clipping_rows
from quantflow.ranges.collect import Collection, TensorStatistics
from quantflow.ranges.select import Selection, select_range
from quantflow.ranges.strata import strata
from quantflow.ranges.views import reader, view_of
from quantflow.runtime.workers import ALONE, Workers

JUDGED_ROWS = 256
"""Rows of a calibration tensor that candidates are judged on; with 128, ranges got worse."""

WeightOf = Callable[[Layer], NDArray[np.float32]]
"""The float32 weight of a layer that has one, of its own shape."""


class _Chosen(Record):
    """What is found for one tensor; workers exchange it."""

    range: TensorRange
    rows: tuple[ClippingRow, ...]


class _Share(Record):
    """What one worker found."""

    chosen: tuple[_Chosen, ...]


def choose_ranges(
    record: ModelRecord,
    weight_of: WeightOf,
    seen: Mapping[Split, Collection],
    settings: LayerSettings,
    *,
    given: Mapping[str, QuantParams] | None = None,
    progress: Progress = no_progress,
    workers: Workers = ALONE,
) -> tuple[list[TensorRange], list[ClippingRow]]:
    """Choose a range for every quantized tensor, and report on every candidate.

    Args:
        record: the model.
        weight_of: gives a layer's weight.
        seen: statistics of both splits; those of the calibration samples decide.
        settings: which estimator, and how weights and activations are quantized.
        given: of a model that came quantized, what its tensors are quantized with: in force, with
            the estimators' ranges beside it.
        progress: called after every tensor.
        workers: share the tensors; every worker gets the ranges of all.

    Returns:
        Ranges in the order of `record.tensors`; rows by tensor, then split, then candidate.
    """
    shares = _shares(record, workers.place.count)
    count_done, total = workers.counter(), len(record.tensors)
    found, done = list[_Chosen](), 0
    for tensor in shares[workers.place.rank]:
        params = (given or {}).get(tensor)
        found.append(_choose(record, tensor, weight_of, seen, settings, params))
        done = count_done(1)
        progress("ranges", done, total)
    by_tensor = {chosen.range.tensor: chosen for chosen in _of_all(found, workers)}
    if done < total:  # the last ones were another worker's
        progress("ranges", total, total)
    ordered = [by_tensor[tensor] for tensor in record.tensors]
    return [x.range for x in ordered], [row for x in ordered for row in x.rows]


def _shares(record: ModelRecord, count: int) -> list[list[str]]:
    """The tensors of every worker, about equally much work for each: `auto` costs what MACs do."""
    macs = {tensor: sum(x.macs for x in record.layers_of(tensor)) for tensor in record.tensors}
    ordered = sorted(record.tensors, key=lambda tensor: -macs[tensor])
    # There and back, so that no worker always gets the largest of those that are dealt out.
    turns = [*range(count), *reversed(range(count))]
    shares: list[list[str]] = [[] for _ in range(count)]
    for number, tensor in enumerate(ordered):
        shares[turns[number % len(turns)]].append(tensor)
    return shares


def _of_all(found: Sequence[_Chosen], workers: Workers) -> list[_Chosen]:
    if workers.place.count == 1:
        return list(found)
    parts = workers.exchange(_Share(chosen=tuple(found)).model_dump_json().encode())
    return [chosen for part in parts for chosen in _Share.model_validate_json(part).chosen]


def _choose(
    record: ModelRecord,
    tensor: str,
    weight_of: WeightOf,
    seen: Mapping[Split, Collection],
    settings: LayerSettings,
    given: QuantParams | None,
) -> _Chosen:
    told, calibrated = settings.tensors[tensor], seen["calibration"].tensors[tensor]
    if given is not None:
        told = replace(told, symmetric=given.zero_point == 0, estimator="minmax")
    selection = _select(record, tensor, weight_of, calibrated, settings, told)
    if given is not None:
        selection = selection.overruled_by(given)
    rows = tuple(
        row
        for split in get_args(Split)
        for row in _clipping(seen, split, tensor, record.group_of(tensor), selection, told)
    )
    chosen = selection.range_of(tensor, symmetric=told.symmetric)
    return _Chosen(range=chosen.model_copy(update={"overridden": told.origin}), rows=rows)


def choose_range(
    record: ModelRecord,
    tensor: str,
    weight_of: WeightOf,
    calibrated: TensorStatistics,
    settings: LayerSettings,
) -> TensorRange:
    """Choose the range of one tensor by its statistics on the calibration samples."""
    told = settings.tensors[tensor]
    selection = _select(record, tensor, weight_of, calibrated, settings, told)
    chosen = selection.range_of(tensor, symmetric=told.symmetric)
    return chosen.model_copy(update={"overridden": told.origin})


def weights_of_layers(model: ir.Model) -> WeightOf:
    """Reads the weights of a model's layers."""
    values = values_by_name(model)

    def of(layer: Layer) -> NDArray[np.float32]:
        weight = constant(values[layer.weight])
        assert weight is not None
        return np.asarray(array_of(weight), np.float32)

    return of


def _select(
    record: ModelRecord,
    tensor: str,
    weight_of: WeightOf,
    calibrated: TensorStatistics,
    settings: LayerSettings,
    told: TensorSettings,
) -> Selection:
    layers = [layer for layer in record.layers_of(tensor) if layer.weight]
    return select_range(calibrated, lambda: _trials(layers, weight_of, calibrated, settings), told)


def _trials(
    layers: Sequence[Layer],
    weight_of: WeightOf,
    calibrated: TensorStatistics,
    settings: LayerSettings,
) -> list[Trial]:
    """What `auto` judges by: the sampled rows of every view, and the layers that read so."""
    trials = list[Trial]()
    for view, rows in calibrated.rows.items():
        found = strata(rows, calibrated.farthest.get(view, ()), calibrated.row_counts.get(view, 0))
        readers = [
            reader(
                layer,
                weight_of(layer),
                per_channel=settings.granularity[layer.name] == "per-channel",
            )
            for layer in layers
            if view_of(layer) == view
        ]
        trials.append(Trial(found.rows, readers, found.weights, found.farthest))
    return trials


def _clipping(
    seen: Mapping[Split, Collection],
    split: Split,
    tensor: str,
    group: str,
    selection: Selection,
    told: TensorSettings,
) -> list[ClippingRow]:
    found = seen[split].tensors[tensor]
    subject = Subject(
        tensor=tensor,
        group=group,
        split=split,
        symmetric=told.symmetric,
        ids=seen[split].ids,
        sample_low=found.sample_low,
        sample_high=found.sample_high,
        calibrated=seen["calibration"].tensors[tensor].histogram if split == "heldout" else None,
    )
    return clipping_rows(found.histogram, selection.candidates, selection.chosen, subject)
