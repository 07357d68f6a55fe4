"""How the statistics of several workers become those of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from quantflow.ranges.row_sample import RowSample, most_rows
from quantflow.ranges.tensor_state import Sample, TensorState, arrays_of, merge_states, state_of
from quantflow.runtime.workers import Workers

PARCEL_BYTES = 32 * 2**20
"""What a worker gives away at once: much, since each exchange waits for all workers, but not all,
so that of the others' statistics little is in memory."""


def exchange_states(
    states: dict[str, TensorState], limit: int, workers: Workers
) -> Iterator[tuple[str, TensorState]]:
    """The state of every tensor as one worker would have it that had seen everything.

    Args:
        states: of this worker, by tensor, the same tensors for all; they are removed one by one.
        limit: how many rows to keep of a view.
        workers: who exchanges.
    """
    if workers.place.count == 1:
        for name in list(states):
            yield name, merge_states([states.pop(name)], limit)
        return
    for names in _parcels(states, limit, workers):
        own = {
            f"{number}/{key}": array
            for number, name in enumerate(names)
            for key, array in arrays_of(states.pop(name)).items()
        }
        parts = [load(content) for content in workers.exchange(save(own))]
        for number, name in enumerate(names):
            yield name, merge_states([_state(part, f"{number}/") for part in parts], limit)


def _parcels(states: Mapping[str, TensorState], limit: int, workers: Workers) -> list[list[str]]:
    """The tensors whose states travel together, the same for all workers.

    Rows that others have enough better ones of are dropped, so that they need not travel.
    """
    own = {
        f"{number}/{name}": sample.keys
        for number, state in enumerate(states.values())
        for name, sample in state.samples.items()
    }
    own["bulk"] = np.array([_bulk(state) for state in states.values()], np.uint64)
    every = [load(part) for part in workers.exchange(save(own))]
    for number, state in enumerate(states.values()):
        for name in state.samples:
            keys = [part[f"{number}/{name}"] for part in every if f"{number}/{name}" in part]
            _drop_rows(state, name, np.concatenate(keys), most_rows(name[1], limit))
    ends = np.cumsum(np.max([x["bulk"] for x in every], axis=0)) // PARCEL_BYTES
    parcels = dict[int, list[str]]()
    for name, number in zip(states, ends.tolist(), strict=True):
        parcels.setdefault(number, []).append(name)
    return list(parcels.values())


def _state(arrays: Mapping[str, NDArray[Any]], prefix: str) -> TensorState:
    """The state whose arrays have names that begin so."""
    own = {k.removeprefix(prefix): array for k, array in arrays.items() if k.startswith(prefix)}
    return state_of(own)


def _drop_rows(state: TensorState, name: Sample, keys: NDArray[np.uint64], limit: int) -> None:
    """Keep only rows that are among the `limit` with the smallest of the keys of all workers."""
    if len(keys) > limit:
        sample = state.samples[name]
        kept = sample.keys <= np.partition(keys, limit - 1)[limit - 1]
        state.samples[name] = RowSample(sample.keys[kept], sample.rows[kept])


def _bulk(state: TensorState) -> int:
    """About how many bytes a state has."""
    return sum(x.rows.nbytes for x in state.samples.values()) + 2 * state.low.nbytes + 2**16
