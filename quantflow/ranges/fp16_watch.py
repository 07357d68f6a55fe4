"""Measuring all float32 values of a model, which together may take far more than memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import ShapeInferencePass

from quantflow.graph.bucket import free_dims
from quantflow.graph.edit import all_values, copy_model
from quantflow.ranges.fetch_batch import FETCHED_BYTES, value_bytes
from quantflow.ranges.fp16_probe import Measures, measure
from quantflow.ranges.pieces import Piece, pieces_of
from quantflow.ranges.run_pieces import run_pieces
from quantflow.runtime.batching import Batch
from quantflow.runtime.runner import Feeds, Runner


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched, and how.

    Attributes:
        model: with types.
        values: float32 inputs and node outputs by name, in graph order. Initializers are not
            watched, nor are values inside the bodies of If, Loop and Scan.
        pieces: of the model, each of which computes about `FETCHED_BYTES` of these values.
    """

    model: ir.Model
    values: Mapping[str, ir.Value]
    pieces: Sequence[Piece]


def watch_of(model: ir.Model, samples: Sequence[Feeds], batch: int) -> Watch:
    """How to watch a model that runs on batches of some samples.

    Args:
        model: not changed.
        samples: feeds without the batch axis.
        batch: samples per inference.
    """
    if any(value.dtype is None for value in all_values(model.graph)):
        model = ShapeInferencePass()(copy_model(model)).model
    values = {str(value.name): value for value in all_values(model.graph) if _is_watched(value)}
    sizes = value_bytes(model, _largest_dims(model, samples, batch))
    return Watch(model, values, pieces_of(model, values, sizes, FETCHED_BYTES))


def measure_batches(
    watch: Watch,
    parts: Sequence[Batch],
    make_runner: Callable[[ir.Model], Runner],
    report: Callable[[int], None],
) -> NDArray[np.float64]:
    """Measure every watched value on every batch.

    Args:
        watch: what is watched.
        parts: B batches.
        make_runner: gives a runner for a model.
        report: told the number of a batch's samples whenever it is through with a piece.

    Returns:
        ``(B, values, measures)``, in the order of `Measures`.
    """

    def measured(values: Mapping[str, NDArray[Any]]) -> dict[str, Measures]:
        return {name: measure(value) for name, value in values.items() if name in watch.values}

    feeds = [part.feeds for part in parts]
    found = [measured(each) for each in feeds]
    for place, values in run_pieces(watch.model, watch.pieces, make_runner, feeds):
        found[place] |= measured(values)
        report(parts[place].count)
    whole = np.array([[each[name] for name in watch.values] for each in found], np.float64)
    return whole.reshape(len(parts), len(watch.values), len(Measures._fields))


def _is_watched(value: ir.Value) -> bool:
    is_float = value.type == ir.TensorType(ir.DataType.FLOAT)  # a sequence has this dtype as well
    return is_float and not value.is_initializer() and bool(value.name)


def _largest_dims(model: ir.Model, samples: Sequence[Feeds], batch: int) -> dict[str, int]:
    """The largest size of every free dimension of the inputs."""
    dims = dict.fromkeys(free_dims(model), 1)
    for value in model.graph.inputs:
        for shape in {sample[str(value.name)].shape for sample in samples}:
            for dim, size in zip(value.shape or (), (batch, *shape), strict=True):
                if not isinstance(dim, int):
                    dims[str(dim.value)] = max(size, dims[str(dim.value)])
    return dims
