"""Statistics of one tensor while they grow, and how those of several workers become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from quantflow.ranges.grid import Histogram, channel_extremes, empty, extremes, merge, observe
from quantflow.ranges.histogram_file import from_arrays, to_arrays
from quantflow.ranges.row_sample import RowSample, add_rows, row_keys

_OWN = ("low", "high", "nonfinite", "keys", "rows", "channel_absmax")
"""Arrays of a serialised state that are not its histogram's."""


@dataclass(slots=True)
class TensorState:
    """What was seen of one tensor so far, padding excluded.

    Attributes:
        low, high: ``(S,)`` float64 extremes of the finite values of every sample of the set;
            ``inf`` and ``-inf`` for a sample without any, or not seen.
        histogram: counts of all values.
        nonfinite: positions of the samples with a NaN or Inf.
        sample: some of its finite rows, None before the first.
        channel_absmax: ``(K,)`` float32 largest finite magnitude of every channel of the last axis,
            None before the first rows.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    histogram: Histogram = field(default_factory=empty)
    nonfinite: list[int] = field(default_factory=list[int])
    sample: RowSample | None = None
    channel_absmax: NDArray[np.float32] | None = None

    def add(
        self,
        rows: NDArray[np.float32],
        lengths: Sequence[int],
        indices: Sequence[int],
        digests: Sequence[str],
        limit: int,
    ) -> None:
        """Add the ``(M, K)`` rows of some samples, `lengths` of them from each."""
        keys = np.concatenate([row_keys(d, n) for d, n in zip(digests, lengths, strict=True)])
        ends = np.cumsum(lengths)
        for index, end, length in zip(indices, ends, lengths, strict=True):
            self.low[index], self.high[index] = self._extremes(rows[end - length : end])
        places = list(indices)
        extent = float(self.low[places].min()), float(self.high[places].max())
        seen = observe(rows, extent)
        self.histogram = merge(self.histogram, seen)
        if seen.nonfinite:
            finite = np.isfinite(rows).all(axis=1)
            of_sample = np.repeat(places, lengths)
            self.nonfinite += np.unique(of_sample[~finite]).tolist()
            rows, keys = rows[finite], keys[finite]
        if limit:
            self.sample = add_rows(self.sample, keys, rows, limit)

    def _extremes(self, rows: NDArray[np.float32]) -> tuple[float, float]:
        """Extremes of the rows of one sample, by way of those of every channel."""
        low, high = channel_extremes(rows)
        absmax = np.maximum(np.maximum(-low, high), np.float32(0))
        self.channel_absmax = _larger(self.channel_absmax, absmax)
        return extremes(low)[0], extremes(high)[1]


def _larger(
    a: NDArray[np.float32] | None, b: NDArray[np.float32] | None
) -> NDArray[np.float32] | None:
    """The elementwise maximum of what there is."""
    if a is None or b is None:
        return b if a is None else a
    return np.maximum(a, b)


def nothing_seen(samples: int) -> TensorState:
    """The state before the first of some samples."""
    return TensorState(np.full(samples, np.inf), np.full(samples, -np.inf))


def merge_states(states: Iterable[TensorState], limit: int) -> TensorState:
    """The state of one worker that had seen all that these have.

    Exact, whatever the split: counts add up, extremes are extremes of extremes, and the rows with
    the smallest keys of all are among those of each. Rows of equal keys are equal, since a key
    stands for the content of a sample and a place in it.

    Args:
        states: of the same tensor over the same set, at least one.
        limit: how many rows to keep.
    """
    first, *others = states
    merged = replace(first)
    for other in others:
        merged.histogram = merge(merged.histogram, other.histogram)
        merged.low = np.minimum(merged.low, other.low)
        merged.high = np.maximum(merged.high, other.high)
        merged.nonfinite = [*merged.nonfinite, *other.nonfinite]
        if merged.sample is None:
            merged.sample = other.sample
        elif other.sample is not None:
            merged.sample = add_rows(merged.sample, other.sample.keys, other.sample.rows, limit)
        merged.channel_absmax = _larger(merged.channel_absmax, other.channel_absmax)
    return merged


def to_bytes(state: TensorState) -> bytes:
    """A state as safetensors; `from_bytes` gives back exactly what was written."""
    arrays: dict[str, NDArray[Any]] = {
        **to_arrays(state.histogram),
        "low": state.low,
        "high": state.high,
        "nonfinite": np.array(state.nonfinite, np.int64),
    }
    if state.sample is not None:
        arrays |= {"keys": state.sample.keys, "rows": np.ascontiguousarray(state.sample.rows)}
    if state.channel_absmax is not None:
        arrays["channel_absmax"] = state.channel_absmax
    return save(arrays)


def from_bytes(content: bytes) -> TensorState:
    """Read what `to_bytes` wrote."""
    arrays = load(content)
    own = {name: arrays.pop(name) for name in _OWN if name in arrays}
    return TensorState(
        low=own["low"],
        high=own["high"],
        histogram=from_arrays(**arrays),
        nonfinite=[int(index) for index in own["nonfinite"]],
        sample=RowSample(own["keys"], own["rows"]) if "keys" in own else None,
        channel_absmax=own.get("channel_absmax"),
    )
