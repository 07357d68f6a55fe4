"""One streaming pass over samples: what the ranges and the clipping report are computed from.

Of each tensor only counts, extremes and a bounded sample of rows are kept, so memory does not grow
with the number of samples. Sums are of integers, so the order of samples does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.ranges_record import NonFinite, Split
from quantflow.errors import fail
from quantflow.progress import Progress, no_progress
from quantflow.ranges.grid import Histogram, empty, extremes, merge, observe
from quantflow.ranges.row_sample import RowSample, add_rows, row_keys
from quantflow.runtime.batching import batches
from quantflow.runtime.runner import Feeds, Runner

Layout = Literal["positions", "flat", "none"]


@dataclass(frozen=True, slots=True)
class TensorStatistics:
    """What was seen of one tensor, padding excluded.

    Attributes:
        histogram: counts of all values.
        sample_low, sample_high: ``(S,)`` float64 extremes of the finite values of every sample, in
            the order of the ids; ``inf`` and ``-inf`` for a sample without any.
        nonfinite_samples: ids of the samples with a NaN or Inf, sorted.
        rows: ``(R, K)`` float32 sample of its finite rows, K the length of the last axis.
    """

    histogram: Histogram
    sample_low: NDArray[np.float64]
    sample_high: NDArray[np.float64]
    nonfinite_samples: tuple[str, ...]
    rows: NDArray[np.float32]


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
        rows: how many rows to sample of a tensor.
        progress: called after every batch.

    Raises:
        QuantflowError: QF501 when the shape of a tensor does not fit its layout.
    """
    states = {name: _State(len(ids)) for name in tensors}
    done = 0
    for part in batches(samples, batch):
        values = runner.run(part.feeds)
        mask = part.feeds[mask_name] != 0 if mask_name else None
        for name, state in states.items():
            layout = padding.get(name, "none") if mask is not None else "none"
            found, lengths = _real_rows(values[name], part.count, batch, mask, layout, name)
            state.add(found, lengths, part.indices, [digests[i] for i in part.indices], rows)
        done += part.count
        progress("calibrating", done, len(ids))
    return Collection({name: state.finish(ids) for name, state in states.items()}, tuple(ids))


class _State:
    """Statistics of one tensor while they grow."""

    def __init__(self, samples: int) -> None:
        self.histogram: Histogram = empty()
        self.low: NDArray[np.float64] = np.full(samples, np.inf)
        self.high: NDArray[np.float64] = np.full(samples, -np.inf)
        self.nonfinite: list[int] = []
        self.sample: RowSample | None = None

    def add(
        self,
        rows: NDArray[np.float32],
        lengths: Sequence[int],
        indices: Sequence[int],
        digests: Sequence[str],
        limit: int,
    ) -> None:
        """Add the ``(M, K)`` rows of some samples, `lengths` of them from each."""
        seen = observe(rows)
        self.histogram = merge(self.histogram, seen)
        keys = np.concatenate([row_keys(d, n) for d, n in zip(digests, lengths, strict=True)])
        ends = np.cumsum(lengths)
        for index, end, length in zip(indices, ends, lengths, strict=True):
            part = rows[end - length : end]
            if seen.nonfinite:
                finite = np.isfinite(part)
                if not finite.all():
                    self.nonfinite.append(index)
                part = part[finite]
            self.low[index], self.high[index] = extremes(part)
        if seen.nonfinite:
            finite = np.isfinite(rows).all(axis=1)
            rows, keys = rows[finite], keys[finite]
        self.sample = add_rows(self.sample, keys, rows, limit)

    def finish(self, ids: Sequence[str]) -> TensorStatistics:
        """What was found; the state is not used any more."""
        return TensorStatistics(
            histogram=self.histogram,
            sample_low=self.low,
            sample_high=self.high,
            nonfinite_samples=tuple(sorted(ids[index] for index in self.nonfinite)),
            rows=self.sample.rows if self.sample else np.zeros((0, 0), np.float32),
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
