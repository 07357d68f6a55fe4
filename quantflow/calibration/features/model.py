"""Features in the model's own space: where its outputs put a sample, how large activations get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layout, ModelRecord, TensorInfo
from quantflow.config import RuntimeConfig
from quantflow.graph.bucket import free_dims
from quantflow.graph.edit import with_outputs
from quantflow.progress import Progress, no_progress
from quantflow.ranges.collect import TensorStatistics, finish
from quantflow.ranges.fetch_batch import fetch_batch
from quantflow.ranges.part import arrange
from quantflow.ranges.tensor_state import TensorState, nothing_seen
from quantflow.ranges.views import Reading, reading_of
from quantflow.runtime.batching import Batch, batches
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.runner import Feeds, Runner

DIRECTIONS = 16
"""Random directions that every output is projected on."""

_STEP = 32
"""Padding is cut off in steps of this many positions, so that few shapes occur."""


@dataclass(frozen=True, slots=True)
class ModelSpace:
    """What a model makes of N samples.

    Attributes:
        names: of the features.
        values: ``(N, len(names))`` float64.
        tensors: statistics of every quantizable tensor, padding excluded.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    tensors: Mapping[str, TensorStatistics]


@dataclass(frozen=True, slots=True)
class ModelFeatures:
    """Runs the float model once over samples.

    Each of its float outputs is projected on a few random directions, which keep distances (Johnson
    and Lindenstrauss 1984), bound what is held in memory, and are the same for every set. Of every
    tensor that may be quantized, the largest magnitude of a sample tells how far its range must
    reach.

    Attributes:
        runner: the canonical float model, with its quantizable tensors among the outputs.
        record: describes it.
        batch: samples per inference.
    """

    runner: Runner
    record: ModelRecord
    batch: int

    @classmethod
    def of(
        cls,
        model: ir.Model,
        record: ModelRecord,
        runtime: RuntimeConfig,
        buckets: Sequence[Mapping[str, int]],
    ) -> ModelFeatures:
        """Ready the model to run.

        Args:
            model: the canonical float model.
            record: describes it.
            runtime: how it runs; `batch` samples at once, if their tensors fit into memory.
            buckets: sizes of the free dimensions that no sample exceeds.
        """
        dims = dict.fromkeys(free_dims(model), 1)
        for bucket in buckets:
            dims |= {name: max(size, dims.get(name, 1)) for name, size in bucket.items()}
        first = record.inputs[0].shape[0]
        batch = first if isinstance(first, int) else runtime.batch
        fetched = dict.fromkeys([*record.tensors, *(info.name for info in record.outputs)])
        batch = fetch_batch(model, fetched, dims, batch)
        return cls(OnnxRuntimeRunner(with_outputs(model, list(fetched)), runtime), record, batch)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, such as ``embedding[3]`` and ``absmax(dense_1)``."""
        projections = [f"{info.name}[{i}]" for info in self._outputs for i in range(DIRECTIONS)]
        return (*projections, *(f"absmax({tensor})" for tensor in self.record.tensors))

    def __call__(
        self,
        samples: Sequence[Feeds],
        ids: Sequence[str],
        digests: Sequence[str],
        label: str,
        progress: Progress = no_progress,
    ) -> ModelSpace:
        """Features of samples; 0 where an output is not finite.

        Args:
            samples: arrays without the batch axis.
            ids, digests: name and content digest of every sample.
            label: what the samples are, for progress.
            progress: called after every batch.
        """
        outputs = np.zeros((len(samples), DIRECTIONS * len(self._outputs)))
        states = {tensor: nothing_seen(len(samples)) for tensor in self.record.tensors}
        readings = {x: reading_of(self.record.layers_of(x)) for x in self.record.tensors}
        done = 0
        for part in batches(self._without_padding(samples), self.batch):
            values = self.runner.run(part.feeds)
            outputs[list(part.indices)] = self._project(values, part)
            self._observe(states, readings, values, part, [digests[i] for i in part.indices])
            done += part.count
            progress(f"features of {label}", done, len(samples))
        tensors = {name: finish(state, ids, readings[name]) for name, state in states.items()}
        absmax = [_absmax(seen) for seen in tensors.values()]
        columns = np.column_stack([np.nan_to_num(outputs, nan=0, posinf=0, neginf=0), *absmax])
        return ModelSpace(self.names, columns, tensors)

    @property
    def _outputs(self) -> list[TensorInfo]:
        return [info for info in self.record.outputs if info.dtype.startswith("float")]

    @property
    def _mask(self) -> TensorInfo | None:
        """The mask, where it has one entry a position: only that is padding of the outputs."""
        mask = self.record.mask
        return mask if mask is not None and len(mask.shape) == 2 else None

    def _project(self, values: Feeds, part: Batch) -> NDArray[np.float64]:
        mask, rows = self._mask, list[NDArray[np.float64]]()
        for row in range(part.count):
            real = part.feeds[mask.name][row] != 0 if mask else None
            found = [
                project(values[info.name][row], info.shape[1:], mask, real)
                for info in self._outputs
            ]
            rows.append(np.concatenate([np.zeros(0), *found]))
        return np.stack(rows)

    def _observe(
        self,
        states: Mapping[str, TensorState],
        readings: Mapping[str, Reading],
        values: Feeds,
        part: Batch,
        digests: Sequence[str],
    ) -> None:
        """Add a batch to the statistics of every tensor, as stage 2 does."""
        padding: dict[str, Layout] = {x.tensor: x.layout for x in self.record.padding}
        mask = part.feeds[self.record.mask.name] != 0 if self.record.mask else None
        for name, state in states.items():
            layout = padding.get(name, "none")
            arranged = arrange(values[name], part.count, self.batch, mask, layout, name)
            state.add(arranged, part.indices, digests, 0, readings[name])

    def _without_padding(self, samples: Sequence[Feeds]) -> Iterator[Feeds]:
        """Samples without most of the padding behind them, which only costs time."""
        mask = self._mask
        if mask is None or isinstance(mask.shape[1], int):
            yield from samples
            return
        for sample in samples:
            last = int(np.flatnonzero(sample[mask.name]).max(initial=0))
            end = (last // _STEP + 1) * _STEP
            yield {
                info.name: _cut(sample[info.name], info.shape[1:], mask.shape[1], end)
                for info in self.record.inputs
            }


def _absmax(seen: TensorStatistics) -> NDArray[np.float64]:
    """Largest finite magnitude of every sample, ``(N,)``; 0 without a finite value."""
    found = np.maximum(-seen.sample_low, seen.sample_high)
    return np.where(np.isfinite(found), np.maximum(found, 0), 0)


def project(
    output: NDArray[Any],
    dims: Sequence[int | str],
    mask: TensorInfo | None,
    real: NDArray[np.bool_] | None,
) -> NDArray[np.float64]:
    """An output's mean over its free axes, projected; ``(DIRECTIONS,)``.

    Args:
        output: of one sample.
        dims: sizes of its axes, the names of free ones.
        mask: the mask input, if there is one.
        real: ``(length,)`` false where a position is padding.
    """
    array = output
    if mask is not None and real is not None and dims and dims[0] == mask.shape[-1]:
        array = array[real]
    free = tuple(axis for axis, dim in enumerate(dims) if isinstance(dim, str))
    # Logits of a text are 100 MB: no copy of them in float64.
    vector = array.mean(axis=free, dtype=np.float64).ravel()
    return vector @ _directions(vector.size)


@lru_cache(maxsize=8)
def _directions(size: int) -> NDArray[np.float64]:
    scale = np.sqrt(DIRECTIONS)
    return np.random.default_rng(size).standard_normal((size, DIRECTIONS)) / scale


def _cut(
    array: NDArray[Any], dims: Sequence[int | str], length: int | str, end: int
) -> NDArray[Any]:
    kept = tuple(slice(end) if dim == length else slice(None) for dim in dims)
    return array[kept]
