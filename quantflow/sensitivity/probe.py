"""Samples that variants of a model are measured on, and what the float model makes of them.

Inputs and the float model's outputs lie on disk, so that memory does not grow with the samples.
Whole compute batches are shared out to workers; what each of them measures, all get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.scratch import ArrayFile
from quantflow.errors import fail
from quantflow.runtime.bucket_run import BucketBatch, Outputs, batch_size, bucket_batches
from quantflow.runtime.runner import Feeds
from quantflow.runtime.workers import ALONE, Workers
from quantflow.tasks.metrics import Arrays, Judged, Metric, Values

Run = Callable[[int], Arrays]
"""Gives a model's outputs for a batch, by the batch's number."""


class Probe:
    """Samples in compute batches, and the float model's figures for them.

    Args:
        run_float: the float model, from a batch's feeds to its outputs.
        samples: arrays without the batch axis, as many as there are ids.
        ids: of the samples.
        record, dims: the model's boundary and sizes.
        metrics: all that will be measured, by name.
        workers: who shares the batches.

    Attributes:
        metrics: by name.
        of_float: by name, the ``(S,)`` values that the float model has.
        weights: by name, how much each of the ``(S,)`` samples counts.
    """

    def __init__(
        self,
        run_float: Callable[[Feeds], Arrays],
        samples: Iterable[Feeds],
        ids: Sequence[str],
        record: ModelRecord,
        dims: Mapping[str, int],
        metrics: Mapping[str, Metric],
        workers: Workers = ALONE,
    ) -> None:
        self.metrics = dict(metrics)
        self._ids, self._workers = tuple(ids), workers
        self._size = batch_size(record, dims)
        self._batches = dict[int, BucketBatch]()
        self._feeds, self._reference = ArrayFile(), ArrayFile()
        self._outputs = tuple(info.name for info in record.outputs)
        values = {name: self._nothing(self.batches) for name in self.metrics}
        weights = {name: np.ones(len(self._ids)) for name in self.metrics}
        for number, batch in enumerate(bucket_batches(samples, record, dims)):
            if number % workers.place.count == workers.place.rank:
                for index, judged in self._keep(number, batch, run_float(batch.feeds)):
                    for name, metric in self.metrics.items():
                        perfect = metric.perfect
                        value = metric.value(judged) if perfect is None else perfect
                        if metric.weight is None and not isfinite(value):
                            _refuse(value, self._ids[index])
                        values[name][index] = value
                        if metric.weight is not None:
                            weights[name][index] = metric.weight(judged)
        self.of_float = self._share(values, self.batches)
        self.weights = self._share(weights, self.batches)

    @property
    def batches(self) -> range:
        """Numbers of all batches."""
        return range(-(-len(self._ids) // self._size))

    def __len__(self) -> int:
        return len(self._ids)

    def samples_in(self, part: range) -> range:
        """Positions of the samples in consecutive batches."""
        return range(part.start * self._size, min(part.stop * self._size, len(self._ids)))

    def own(self, part: range) -> Iterator[int]:
        """Numbers of the batches among these that are this worker's."""
        return (number for number in part if number in self._batches)

    def feeds(self, number: int) -> dict[str, NDArray[Any]]:
        """What one of this worker's batches feeds the model with."""
        return {name: self._feeds[number, name] for name in self._batches[number].feeds}

    def measure(
        self, run: Run, names: Iterable[str] | None = None, part: range | None = None
    ) -> dict[str, Values]:
        """Metrics of a model on every sample; all workers call it together.

        Args:
            run: the model.
            names: of the metrics; all of them by default.
            part: numbers of consecutive batches; all of them by default.

        Returns:
            By name ``(S',)`` float64, one value for each of the part's samples.
        """
        part = self.batches if part is None else part
        metrics = {name: self.metrics[name] for name in (names or self.metrics)}
        found = {name: self._nothing(part) for name in metrics}
        start = self.samples_in(part).start
        for number in self.own(part):
            for index, judged in self._judged(number, run(number), metrics):
                for name, metric in metrics.items():
                    found[name][index - start] = metric.value(judged)
        return self._share(found, part)

    def _judged(
        self, number: int, result: Arrays, metrics: Mapping[str, Metric]
    ) -> Iterator[tuple[int, Judged]]:
        batch = replace(self._batches[number], feeds=self.feeds(number))
        compared = any(metric.needs_reference for metric in metrics.values())
        rows = zip(batch.indices, batch.inputs(), batch.outputs_of(result), strict=True)
        for index, inputs, outputs in rows:
            reference = self._stored(index) if compared else {}
            yield index, Judged(self._ids[index], inputs, reference, outputs)

    def _keep(
        self, number: int, batch: BucketBatch, result: Arrays
    ) -> Iterator[tuple[int, Judged]]:
        """Put a batch on disk; gives the float model judged on each of its samples."""
        for name, array in batch.feeds.items():
            self._feeds.add((number, name), array)
        self._batches[number] = replace(batch, feeds=dict.fromkeys(batch.feeds, np.empty(0)))
        compared = any(metric.needs_reference for metric in self.metrics.values())
        rows = zip(batch.indices, batch.inputs(), batch.outputs_of(result), strict=True)
        for index, inputs, outputs in rows:
            for name, array in outputs.items() if compared else ():
                self._reference.add((index, name), array)
            yield index, Judged(self._ids[index], inputs, outputs, outputs)

    def _stored(self, index: int) -> Outputs:
        return {name: self._reference[index, name] for name in self._outputs}

    def _nothing(self, part: range) -> Values:
        return np.full(len(self.samples_in(part)), np.nan)

    def _share(self, own: dict[str, Values], part: range) -> dict[str, Values]:
        """What every worker has measured of a part, put together."""
        if self._workers.place.count == 1:
            return own
        parcels = [load(content) for content in self._workers.exchange(save(own))]
        count, samples = len(parcels), self.samples_in(part)
        owner = (np.arange(samples.start, samples.stop) // self._size) % count
        place = np.arange(len(samples))
        return {name: np.stack([x[name] for x in parcels])[owner, place] for name in own}


def _refuse(value: float, sample: str) -> NoReturn:
    """Nothing can be compared with a figure that is no number for the float model itself."""
    what = f"of fp32 itself it is {value} on sample {sample!r}"
    fail("QF312", what, where="task.function", fix="return a finite number for every sample")
