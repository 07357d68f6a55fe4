"""Features in the model's own space: where its outputs put a sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord, TensorInfo
from quantflow.progress import Progress, no_progress
from quantflow.runtime.batching import batches
from quantflow.runtime.runner import Feeds, Runner

DIRECTIONS = 16
"""Random directions that every output is projected on."""

_STEP = 32
"""Padding is cut off in steps of this many positions, so that few shapes occur."""


@dataclass(frozen=True, slots=True)
class OutputFeatures:
    """Runs the float model and projects each of its float outputs on a few directions.

    Random directions keep distances (Johnson and Lindenstrauss 1984), bound what is held in memory,
    and are the same for every set.

    Attributes:
        runner: the canonical float model.
        record: describes its boundary.
        batch: samples per inference.
    """

    runner: Runner
    record: ModelRecord
    batch: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, such as ``embedding[3]``."""
        return tuple(f"{info.name}[{i}]" for info in self._outputs for i in range(DIRECTIONS))

    @property
    def _outputs(self) -> list[TensorInfo]:
        return [info for info in self.record.outputs if info.dtype.startswith("float")]

    @property
    def _mask(self) -> TensorInfo | None:
        """The mask, where it has one entry a position: only that is padding of the outputs."""
        mask = self.record.mask
        return mask if mask is not None and len(mask.shape) == 2 else None

    def __call__(
        self, samples: Sequence[Feeds], label: str, progress: Progress = no_progress
    ) -> NDArray[np.float64]:
        """Features of samples, ``(N, len(names))``; 0 where an output is not finite.

        Args:
            samples: arrays without the batch axis.
            label: what the samples are, for progress.
            progress: called after every batch.
        """
        found = np.zeros((len(samples), len(self.names)))
        mask, done = self._mask, 0
        for part in batches(self._without_padding(samples), self.batch):
            values = self.runner.run(part.feeds)
            for row, index in enumerate(part.indices):
                real = part.feeds[mask.name][row] != 0 if mask else None
                projected = [
                    project(values[info.name][row], info.shape[1:], mask, real)
                    for info in self._outputs
                ]
                found[index] = np.concatenate([np.zeros(0), *projected])
            done += part.count
            progress(f"features of {label}", done, len(samples))
        return np.nan_to_num(found, nan=0, posinf=0, neginf=0)

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
