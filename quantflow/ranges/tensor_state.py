"""Statistics of one tensor while they grow, and how those of several workers become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.channels import channel_extremes
from quantflow.ranges.fields import fields_of, real_fields
from quantflow.ranges.grid import Histogram, empty, merge, observe
from quantflow.ranges.histogram_file import from_arrays, to_arrays
from quantflow.ranges.part import Part
from quantflow.ranges.row_sample import RowSample, Take, add_rows, merge_samples, row_keys
from quantflow.ranges.views import Reading, View


@dataclass(slots=True)
class TensorState:
    """What was seen of one tensor so far, padding excluded.

    Attributes:
        low, high: ``(S,)`` float64 extremes of the finite values of every sample of the set;
            ``inf`` and ``-inf`` for a sample without any, or not seen.
        histogram: counts of all values.
        nonfinite: positions of the samples with a NaN or Inf.
        samples: some of its finite rows, by number of the view.
        channel_absmax: ``(K,)`` float32 largest finite magnitude of every channel, None before the
            first values.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    histogram: Histogram = field(default_factory=empty)
    nonfinite: list[int] = field(default_factory=list[int])
    samples: dict[int, RowSample] = field(default_factory=dict[int, RowSample])
    channel_absmax: NDArray[np.float32] | None = None

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
            limit: how many rows to keep of a view, or 0.
            reading: how layers read the tensor.
        """
        places, values = list(indices), part.real_values()
        low, high = channel_extremes(part, reading.channel_axis)
        self.low[places], self.high[places] = low.min(axis=1), high.max(axis=1)
        absmax = np.maximum(np.maximum(-low, high).max(axis=0), np.float32(0))
        self.channel_absmax = _larger(self.channel_absmax, absmax)
        # Adding zero turns -0.0 into 0.0.
        seen = observe(values, (float(low.min()) + 0.0, float(high.max()) + 0.0))
        self.histogram = merge(self.histogram, seen)
        if seen.nonfinite:
            self.nonfinite += [places[i] for i in part.nonfinite_samples()]
        for number, view in enumerate(reading.views if limit else ()):
            keys, take = _rows(part, values, digests, view)
            sample = self.samples.get(number)
            sample = add_rows(sample, keys, take, limit, finite=not seen.nonfinite)
            if sample is not None:
                self.samples[number] = sample


def _rows(
    part: Part, values: NDArray[np.float32], digests: Sequence[str], view: View
) -> tuple[NDArray[np.uint64], Take]:
    """Keys of a part's rows in a view, and what gives the rows at some places among them."""
    if view is not None:
        fields = fields_of(part, view)
        counts = [fields.images.shape[0] // len(digests) * int(np.prod(fields.outputs))]
        keys = _keys(digests, counts * len(digests))
        real = real_fields(part, fields)
        if real is None:
            return keys, fields.take
        places = np.flatnonzero(real)
        return keys[places], lambda some: fields.take(places[some])
    width = part.values.shape[-1]
    if part.whole_rows:
        return _keys(digests, part.row_counts()), values.reshape(-1, width).__getitem__
    rows = part.values.reshape(-1, width)
    return _keys(digests, [len(rows) // len(digests)] * len(digests)), rows.__getitem__


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
        limit: how many rows to keep.
    """
    states = list(states)
    first, *others = states
    merged = replace(first)
    for other in others:
        merged.histogram = merge(merged.histogram, other.histogram)
        merged.low = np.minimum(merged.low, other.low)
        merged.high = np.maximum(merged.high, other.high)
        merged.nonfinite = [*merged.nonfinite, *other.nonfinite]
        merged.channel_absmax = _larger(merged.channel_absmax, other.channel_absmax)
    merged.samples = {
        view: merge_samples([x.samples[view] for x in states if view in x.samples], limit)
        for view in sorted({view for state in states for view in state.samples})
    }
    return merged


def arrays_of(state: TensorState) -> dict[str, NDArray[Any]]:
    """The arrays that stand for a state, by name; `state_of` gives back exactly this state."""
    arrays: dict[str, NDArray[Any]] = {
        **to_arrays(state.histogram),
        "low": state.low,
        "high": state.high,
        "nonfinite": np.array(state.nonfinite, np.int64),
    }
    for number, sample in state.samples.items():
        arrays[f"keys{number}"] = sample.keys
        arrays[f"rows{number}"] = np.ascontiguousarray(sample.rows)
    if state.channel_absmax is not None:
        arrays["channel_absmax"] = state.channel_absmax
    return arrays


def state_of(arrays: Mapping[str, NDArray[Any]]) -> TensorState:
    """The state that `arrays_of` gave these arrays for."""
    histogram = {name: arrays[name] for name in ("bins", "counts", "extremes", "inf")}
    numbers = sorted(int(name.removeprefix("keys")) for name in arrays if name.startswith("keys"))
    return TensorState(
        low=arrays["low"],
        high=arrays["high"],
        histogram=from_arrays(**histogram),
        nonfinite=[int(index) for index in arrays["nonfinite"]],
        samples={n: RowSample(arrays[f"keys{n}"], arrays[f"rows{n}"]) for n in numbers},
        channel_absmax=arrays.get("channel_absmax"),
    )
