"""Statistics of one tensor while they grow, and how those of several workers become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.channels import channel_extremes
from quantflow.ranges.fields import fields_of, real_fields
from quantflow.ranges.grid import Histogram, empty, merge, observe
from quantflow.ranges.histogram_file import from_arrays, to_arrays
from quantflow.ranges.part import Part
from quantflow.ranges.row_sample import (
    PICKS,
    Pick,
    RowSample,
    Take,
    add_rows,
    farthest_first,
    merge_samples,
    most_rows,
    row_keys,
)
from quantflow.ranges.views import Reading, View

Sample = tuple[int, Pick]
"""The number of a view, and which rows of it."""


@dataclass(slots=True)
class TensorState:
    """What was seen of one tensor so far, padding excluded.

    Attributes:
        low, high: ``(S,)`` float64 extremes of the finite values of every sample of the set;
            ``inf`` and ``-inf`` for a sample without any, or not seen.
        histogram: counts of all values.
        nonfinite: positions of the samples with a NaN or Inf.
        samples: some of its finite rows.
        row_counts: how many rows there were, by number of the view.
        channel_reach: ``(2, K)`` float32 how far the finite values of every channel reach down,
            which is minus the least, and up; ``-inf`` for one without any, None before the first
            values.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    histogram: Histogram = field(default_factory=empty)
    nonfinite: list[int] = field(default_factory=list[int])
    samples: dict[Sample, RowSample] = field(default_factory=dict[Sample, RowSample])
    row_counts: dict[int, int] = field(default_factory=dict[int, int])
    channel_reach: NDArray[np.float32] | None = None

    def add(
        self,
        part: Part,
        indices: Sequence[int],
        digests: Sequence[str],
        limit: int,
        reading: Reading,
    ) -> None:
        """Add the values of some samples.

        Args:
            part: the values.
            indices: positions of the samples in the set.
            digests: of their contents.
            limit: how many rows to keep of a view, or 0; as many at most of those that reach
                farthest.
            reading: how layers read the tensor.
        """
        places, values = list(indices), part.real_values()
        low, high = channel_extremes(part, reading.channel_axis)
        self.low[places], self.high[places] = low.min(axis=1), high.max(axis=1)
        reach = np.stack([-low.min(axis=0), high.max(axis=0)])
        self.channel_reach = _larger(self.channel_reach, reach)
        # Adding zero turns -0.0 into 0.0.
        seen = observe(values, (float(low.min()) + 0.0, float(high.max()) + 0.0))
        self.histogram = merge(self.histogram, seen)
        if seen.nonfinite:
            self.nonfinite += [places[i] for i in part.nonfinite_samples()]
        reaches = {"high": float(high.max()), "low": float(-low.min()), "any": np.inf}
        for number, view in enumerate(reading.views if limit else ()):
            rows = _rows(part, values, digests, view)
            self.row_counts[number] = self.row_counts.get(number, 0) + len(rows.keys)
            for pick in PICKS:
                sample, most = self.samples.get((number, pick)), most_rows(pick, limit)
                if _cannot_enter(sample, most, reaches[pick], pick):
                    continue
                keys = rows.keys if pick == "any" else farthest_first(rows.keys, rows.reach(pick))
                sample = add_rows(sample, keys, rows.take, most, finite=not seen.nonfinite)
                if sample is not None:
                    self.samples[number, pick] = sample


def _cannot_enter(sample: RowSample | None, most: int, reach: float, pick: Pick) -> bool:
    """Whether a full sample holds only rows that reach farther than a part does."""
    if pick == "any" or sample is None or len(sample.keys) < most:
        return False
    (first,) = farthest_first(np.zeros(1, np.uint64), np.array([reach], np.float32))
    return bool(first > sample.keys.max())


@dataclass(frozen=True, slots=True)
class _Rows:
    """A part's rows in a view.

    Attributes:
        keys: ``(M,)`` uint64.
        take: gives the rows at some places.
        reach: ``(M,)`` float32 how far each goes up, or down; of a receptive field its middle.
    """

    keys: NDArray[np.uint64]
    take: Take
    reach: Callable[[Pick], NDArray[np.float32]]


def _rows(part: Part, values: NDArray[np.float32], digests: Sequence[str], view: View) -> _Rows:
    if view is not None:
        fields = fields_of(part, view)
        counts = [fields.images.shape[0] // len(digests) * int(np.prod(fields.outputs))]
        keys = _keys(digests, counts * len(digests))
        real = real_fields(part, fields)
        if real is None:
            return _Rows(keys, fields.take, lambda pick: _reach(fields.middles(), pick))
        places = np.flatnonzero(real)
        return _Rows(
            keys[places],
            lambda some: fields.take(places[some]),
            lambda pick: _reach(fields.middles(), pick)[places],
        )
    width = part.values.shape[-1]
    if part.whole_rows:
        rows, counts = values.reshape(-1, width), part.row_counts()
    else:
        rows = part.values.reshape(-1, width)
        counts = [len(rows) // len(digests)] * len(digests)
    return _Rows(_keys(digests, counts), rows.__getitem__, lambda pick: _reach(rows, pick))


def _reach(values: NDArray[np.float32], pick: Pick) -> NDArray[np.float32]:
    """How far values go up along the second axis, or down, as one list."""
    farthest = values.max(axis=1) if pick == "high" else -values.min(axis=1)
    return farthest.ravel()


def _keys(digests: Sequence[str], counts: Sequence[int]) -> NDArray[np.uint64]:
    return np.concatenate([row_keys(x, n) for x, n in zip(digests, counts, strict=True)])


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
        limit: how many rows to keep of a view.
    """
    states = list(states)
    first, *others = states
    merged = replace(first)
    for other in others:
        merged.histogram = merge(merged.histogram, other.histogram)
        merged.low = np.minimum(merged.low, other.low)
        merged.high = np.maximum(merged.high, other.high)
        merged.nonfinite = [*merged.nonfinite, *other.nonfinite]
        merged.channel_reach = _larger(merged.channel_reach, other.channel_reach)
    merged.row_counts = {
        view: sum(x.row_counts.get(view, 0) for x in states)
        for view in sorted({view for state in states for view in state.row_counts})
    }
    merged.samples = {
        name: merge_samples(
            [x.samples[name] for x in states if name in x.samples], most_rows(name[1], limit)
        )
        for name in sorted({name for state in states for name in state.samples})
    }
    return merged


def arrays_of(state: TensorState) -> dict[str, NDArray[Any]]:
    """The arrays that stand for a state, by name; `state_of` gives back exactly this state."""
    arrays: dict[str, NDArray[Any]] = {
        **to_arrays(state.histogram),
        "low": state.low,
        "high": state.high,
        "nonfinite": np.array(state.nonfinite, np.int64),
        "row_counts": np.array(list(state.row_counts.items()), np.int64).reshape(-1, 2),
    }
    for (number, pick), sample in state.samples.items():
        arrays[f"keys {number} {pick}"] = sample.keys
        arrays[f"rows {number} {pick}"] = np.ascontiguousarray(sample.rows)
    if state.channel_reach is not None:
        arrays["channel_reach"] = state.channel_reach
    return arrays


def state_of(arrays: Mapping[str, NDArray[Any]]) -> TensorState:
    """The state that `arrays_of` gave these arrays for."""
    histogram = {name: arrays[name] for name in ("bins", "counts", "extremes", "inf")}
    samples = dict[Sample, RowSample]()
    for name in sorted(name for name in arrays if name.startswith("keys ")):
        _, number, pick = name.split()
        rows = arrays[f"rows {number} {pick}"]
        samples[int(number), cast(Pick, pick)] = RowSample(arrays[name], rows)
    return TensorState(
        low=arrays["low"],
        high=arrays["high"],
        histogram=from_arrays(**histogram),
        nonfinite=[int(index) for index in arrays["nonfinite"]],
        samples=samples,
        row_counts={int(view): int(count) for view, count in arrays["row_counts"]},
        channel_reach=arrays.get("channel_reach"),
    )
