"""Two sides run batch by batch, each tensor measured at every place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layout
from quantflow.evaluation.arranged import arrange_batch, sample_values
from quantflow.evaluation.places import Place
from quantflow.evaluation.sides import DumpSource, Side, Source, Tensors, comparable
from quantflow.evaluation.subject import Subject
from quantflow.evaluation.tally import Tally
from quantflow.numerics.differences import differences
from quantflow.progress import Progress
from quantflow.runtime.bucket_run import BucketBatch, bucket_batches
from quantflow.runtime.runner import Feeds

Jitter = dict[str, tuple[float, float]]
"""By tensor, the largest difference and distance of the cosine from 1 of a side that ran twice; the
difference is NaN where one run gave a NaN or Inf that the other one has not."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found.

    Attributes:
        tallies: by tensor.
        jitter: by tensor, of runs of the same side; empty where nothing ran twice.
        samples: number of samples.
        held: number of samples that a dump holds, by its name, where that can be told.
    """

    tallies: Mapping[str, Tally]
    jitter: Jitter
    samples: int
    held: Mapping[str, int] = field(default_factory=dict[str, int])


def measure(
    places: Sequence[Place],
    reference: Side,
    other: Side,
    subject: Subject,
    samples: Iterable[Feeds],
    ids: Sequence[str],
    progress: Progress,
    *,
    repeat: int = 1,
    label: str = "comparing",
) -> Measured:
    """Run both sides over the samples, and keep a few numbers of every tensor.

    One batch of tensors of both sides is in memory at a time.

    Args:
        places: that both sides have.
        reference, other: the sides.
        subject: the bucket.
        samples: arrays without the batch axis. A dump that holds fewer ends the comparison.
        ids: of the samples.
        progress: called after every batch.
        repeat: how often each model runs the first batch, so that jitter shows.
        label: what is being done.
    """
    tensors = list(dict.fromkeys(place.tensor for place in places))
    sources = [side.open(tensors, subject) for side in (reference, other)]
    held = _held((reference, other), sources)
    count = min([len(ids), *held.values()])
    reader = _Reader(subject, subject.layouts(tensors), subject.shapes(), ids)
    tallies = {name: Tally(logits=name in subject.logits) for name in tensors}
    jitter, done = Jitter(), 0
    taken = islice(samples, count)
    for batch in bucket_batches(taken, subject.record, subject.bucket.dims):
        values = [source.fetch(batch) for source in sources]
        if not done:
            jitter = _jitter(sources, values, batch, repeat)
        for name, tally in tallies.items():
            reader.add(tally, name, [x[name] for x in values], batch)
        done += len(batch.indices)
        progress(label, done, count)
    return Measured(tallies, jitter, done, held)


def _held(sides: Sequence[Side], sources: Sequence[Source]) -> dict[str, int]:
    counts = {
        side.info.name: source.samples()
        for side, source in zip(sides, sources, strict=True)
        if isinstance(source, DumpSource)
    }
    return {name: count for name, count in counts.items() if count is not None}


@dataclass(frozen=True, slots=True)
class _Reader:
    """Takes batches of tensors apart."""

    subject: Subject
    layouts: Mapping[str, Layout]
    shapes: Mapping[str, tuple[int, ...] | None]
    ids: Sequence[str]

    def add(
        self, tally: Tally, name: str, arrays: Sequence[NDArray[Any]], batch: BucketBatch
    ) -> None:
        """Add both sides' tensor of a batch."""
        if tally.trouble:
            return
        if not comparable(arrays):
            reference, other = (f"{x.shape} {x.dtype}" for x in arrays)
            tally.trouble = f"shapes or types differ: {other}, {reference} in the reference"
            return
        # A tensor of another shape than the run's model has is not laid out as that is.
        laid_out = self.shapes.get(name) in (None, arrays[0].shape)
        layout = self.layouts[name] if laid_out else "none"
        count, record = len(batch.indices), self.subject.record
        parts = [arrange_batch(x, batch.feeds, count, record, layout, name) for x in arrays]
        values = zip(*map(sample_values, parts), strict=True)
        for index, (a, b) in zip(batch.indices, values, strict=True):
            tally.add(self.ids[index], a, b)


def _jitter(
    sources: Sequence[Source], values: Sequence[Tensors], batch: BucketBatch, repeat: int
) -> Jitter:
    """How far a model that runs the same batch again is from itself."""
    found = Jitter()
    for source, first in zip(sources, values, strict=True):
        for _ in range(0 if isinstance(source, DumpSource) else repeat - 1):
            for name, again in source.fetch(batch).items():
                difference = differences(first[name], again)
                size = float("nan") if difference.nonfinite_apart else difference.largest
                angle = 1.0 - difference.cosine
                before = found.get(name, (0.0, 0.0))
                found[name] = float(np.maximum(before[0], size)), float(np.fmax(before[1], angle))
    return found
