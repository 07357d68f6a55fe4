"""One streaming pass over samples: what the ranges and the clipping report are computed from.

Of each tensor only counts, extremes and a bounded sample of rows are kept, so memory does not grow
with the number of samples. Sums are of integers, so the order of samples does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.ranges_record import NonFinite, Split
from quantflow.errors import fail
from quantflow.progress import Progress, no_progress
from quantflow.ranges.grid import Histogram
from quantflow.ranges.tensor_state import (
    TensorState,
    from_bytes,
    merge_states,
    nothing_seen,
    to_bytes,
)
from quantflow.runtime.batching import batches
from quantflow.runtime.runner import Feeds, Runner
from quantflow.runtime.workers import ALONE, Workers, share

Layout = Literal["positions", "flat", "none"]


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
        rows: ``(R, K)`` float32 sample of its finite rows, K the length of the last axis.
        channel_absmax: ``(K,)`` float32 largest finite magnitude of every channel of the last axis.
    """

    histogram: Histogram
    sample_low: NDArray[np.float64]
    sample_high: NDArray[np.float64]
    nonfinite_samples: tuple[str, ...]
    rows: NDArray[np.float32]
    channel_absmax: NDArray[np.float32] = field(default_factory=_no_channels)


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
        rows: how many rows to sample of a tensor, or 0.
        progress: called after every batch.
        workers: share the batches; every worker gets the statistics of all samples.

    Raises:
        QuantflowError: QF501 when the shape of a tensor does not fit its layout.
    """
    states = {name: nothing_seen(len(ids)) for name in tensors}
    count_done, done = workers.counter(), 0
    for part in share(batches(samples, batch), workers):
        values = runner.run(part.feeds)
        mask = part.feeds[mask_name] != 0 if mask_name else None
        for name, state in states.items():
            layout = padding.get(name, "none") if mask is not None else "none"
            found, lengths = _real_rows(values[name], part.count, batch, mask, layout, name)
            state.add(found, lengths, part.indices, [digests[i] for i in part.indices], rows)
        done = count_done(part.count)
        progress("calibrating", done, len(ids))
    merged = dict[str, TensorStatistics]()
    for name in tensors:  # one by one, so that of all other workers no more than one is in memory
        parts = [from_bytes(content) for content in workers.exchange(to_bytes(states.pop(name)))]
        merged[name] = _finish(merge_states(parts, rows), ids)
    if done < len(ids):  # the last samples were another worker's
        progress("calibrating", len(ids), len(ids))
    return Collection(merged, tuple(ids))


def _finish(state: TensorState, ids: Sequence[str]) -> TensorStatistics:
    return TensorStatistics(
        histogram=state.histogram,
        sample_low=state.low,
        sample_high=state.high,
        nonfinite_samples=tuple(sorted(ids[index] for index in state.nonfinite)),
        rows=state.sample.rows if state.sample else np.zeros((0, 0), np.float32),
        channel_absmax=_no_channels() if state.channel_absmax is None else state.channel_absmax,
    )


def _real_rows(
    value: NDArray[Any],
    count: int,
    batch: int,
    mask: NDArray[np.bool_] | None,
    layout: Layout,
    name: str,
) -> tuple[NDArray[np.float32], list[int]]:
    """The rows of the batch's samples, padding and repeated samples left out.

    Args:
        value: the tensor, ``(batch, ..., K)`` or ``(batch * length, ..., K)``.
        count: how many of the samples are not repetitions.
        batch: number of samples.
        mask: ``(batch, length)``, false where a position is padding.
        layout: how the tensor's axes relate to the mask.
        name: of the tensor.

    Returns:
        ``(M, K)`` float32 rows, sample after sample, and the number of rows of each sample.
    """
    value = np.atleast_2d(value)
    width = value.shape[-1]
    if mask is None or layout == "none":
        if value.shape[0] % batch:  # no batch axis: the tensor is the same for every sample
            value = np.broadcast_to(value, (batch, *value.shape))
        rows = value.reshape(batch, -1, width)[:count]
        return rows.reshape(-1, width), [rows.shape[1]] * count
    leading = mask.shape if layout == "positions" else (mask.size,)
    if value.shape[: len(leading)] != leading:
        fail(
            "QF501",
            f"tensor has shape {value.shape}, which does not begin with {leading}",
            where=name,
            fix="an input marked as mask must be (batch, length); rerun `quantflow prepare`",
        )
    rows = value.reshape(*mask.shape, -1, width)[:count]
    real = mask[:count]
    lengths = [int(n) * rows.shape[2] for n in real.sum(axis=1)]
    # Indexing copies, which data without padding need not pay for.
    return (rows if real.all() else rows[real]).reshape(-1, width), lengths
