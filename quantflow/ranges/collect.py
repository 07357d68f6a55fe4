"""One streaming pass over samples: what the ranges and the clipping report are computed from.

Of each tensor only counts, extremes and a bounded sample of rows are kept, so memory does not grow
with the number of samples. Sums are of integers, so the order of samples does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Layout
from quantflow.artifacts.ranges_record import NonFinite, Split
from quantflow.progress import Progress, no_progress
from quantflow.ranges.exchange import exchange_states
from quantflow.ranges.grid import Histogram
from quantflow.ranges.part import arrange
from quantflow.ranges.row_sample import Pick
from quantflow.ranges.tensor_state import TensorState, nothing_seen
from quantflow.ranges.views import Reading, View
from quantflow.runtime.batching import batches
from quantflow.runtime.runner import Feeds, Runner
from quantflow.runtime.workers import ALONE, Workers, share

VECTORS = Reading()
"""How a tensor is read unless said otherwise: vectors along the last axis."""


def _no_channels() -> NDArray[np.float32]:
    return np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class TensorStatistics:
    """What was seen of one tensor, padding excluded.

    Attributes:
        histogram: counts of all values.
        sample_low, sample_high: ``(S,)`` float64 extremes of the finite values of every sample, in
            the order of the ids; ``inf`` and ``-inf`` for a sample without any.
        nonfinite_samples: ids of the samples with a NaN or Inf, sorted.
        rows: ``(R, K)`` float32 sample of its finite rows, by the view that they are rows of.
        farthest: the same of the rows that reach highest, and of those that reach lowest.
        row_counts: how many rows there were, by view.
        channel_low, channel_high: ``(C,)`` float32 extremes of the finite values of every channel;
            ``inf`` and ``-inf`` for one without any.
    """

    histogram: Histogram
    sample_low: NDArray[np.float64]
    sample_high: NDArray[np.float64]
    nonfinite_samples: tuple[str, ...]
    rows: Mapping[View, NDArray[np.float32]]
    channel_low: NDArray[np.float32] = field(default_factory=_no_channels)
    channel_high: NDArray[np.float32] = field(default_factory=_no_channels)
    farthest: Mapping[View, tuple[NDArray[np.float32], ...]] = field(
        default_factory=dict[View, tuple[NDArray[np.float32], ...]]
    )
    row_counts: Mapping[View, int] = field(default_factory=dict[View, int])

    @property
    def channel_absmax(self) -> NDArray[np.float32]:
        """``(C,)`` float32 largest finite magnitude of every channel; 0 for one without any."""
        return np.maximum(np.maximum(-self.channel_low, self.channel_high), np.float32(0))


@dataclass(frozen=True, slots=True)
class Collection:
    """The outcome of a pass: statistics by tensor, and the samples' ids in order."""

    tensors: dict[str, TensorStatistics]
    ids: tuple[str, ...]

    def nonfinite(self, split: Split) -> list[NonFinite]:
        """A record for every tensor in which NaN or Inf was seen."""
        return [
            NonFinite(
                tensor=name,
                split=split,
                nan=seen.histogram.nan,
                inf=seen.histogram.inf,
                samples=seen.nonfinite_samples[:10],
            )
            for name, seen in self.tensors.items()
            if seen.histogram.nonfinite
        ]


def collect(
    runner: Runner,
    samples: Iterable[Feeds],
    *,
    ids: Sequence[str],
    digests: Sequence[str],
    tensors: Sequence[str],
    padding: Mapping[str, Layout],
    mask_name: str | None,
    batch: int,
    rows: int = 256,
    readings: Mapping[str, Reading] | None = None,
    progress: Progress = no_progress,
    workers: Workers = ALONE,
) -> Collection:
    """Run the samples once and keep statistics of the named tensors.

    Args:
        runner: its outputs include the tensors; ideally they are exactly those.
        samples: feeds without the batch axis.
        ids, digests: name and content digest of every sample, in the same order.
        tensors: names of float32 values.
        padding: layout of each tensor relative to the mask; a tensor not named has layout `none`.
        mask_name: the input ``(batch, length)`` that is 0 where a position is padding, or None.
        batch: samples per inference.
        rows: how many rows to sample of a tensor and view, or 0.
        readings: how layers read a tensor; one not named is read as vectors along the last axis.
        progress: called after every batch.
        workers: share the batches; every worker gets the statistics of all samples.

    Raises:
        QuantflowError: QF501 when the shape of a tensor does not fit its layout.
    """
    states = {name: nothing_seen(len(ids)) for name in tensors}
    asked = {name: (readings or {}).get(name, VECTORS) for name in tensors}
    count_done, done = workers.counter(), 0
    for run in share(batches(samples, batch), workers):
        values = runner.run(run.feeds)
        mask = run.feeds[mask_name] != 0 if mask_name else None
        contents = [digests[i] for i in run.indices]
        for name, state in states.items():
            layout = padding.get(name, "none")
            # What was looked at may go, so that memory does not hold all of a batch to the end.
            part = arrange(values.pop(name), run.count, batch, mask, layout, name)
            state.add(part, run.indices, contents, rows, asked[name])
        done = count_done(run.count)
        progress("calibrating", done, len(ids))
    merged = dict[str, TensorStatistics]()
    for name, state in exchange_states(states, rows, workers):
        merged[name] = finish(state, ids, asked[name])
    if done < len(ids):  # the last samples were another worker's
        progress("calibrating", len(ids), len(ids))
    return Collection(merged, tuple(ids))


def finish(state: TensorState, ids: Sequence[str], reading: Reading) -> TensorStatistics:
    """The statistics that a state has come to.

    Args:
        state: of one tensor, all samples seen.
        ids: name of every sample.
        reading: how layers read the tensor.
    """
    none, reach = np.zeros((0, 0), np.float32), state.channel_reach

    def rows(number: int, pick: Pick) -> NDArray[np.float32]:
        sample = state.samples.get((number, pick))
        return none if sample is None else sample.rows

    return TensorStatistics(
        histogram=state.histogram,
        sample_low=state.low,
        sample_high=state.high,
        nonfinite_samples=tuple(sorted(ids[index] for index in state.nonfinite)),
        rows={view: rows(i, "any") for i, view in enumerate(reading.views)},
        channel_low=_no_channels() if reach is None else -reach[0],
        channel_high=_no_channels() if reach is None else reach[1],
        farthest={view: (rows(i, "high"), rows(i, "low")) for i, view in enumerate(reading.views)},
        row_counts={view: state.row_counts.get(i, 0) for i, view in enumerate(reading.views)},
    )
