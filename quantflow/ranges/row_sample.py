"""A bounded sample of a tensor's rows that does not depend on the order in which samples came.

Every row has a key: a hash of its sample's digest and its number within the sample. The rows with
the smallest keys are kept, so the sample is uniform over all rows seen, and two samples merge by
keeping the smallest keys of both (bottom-k sampling; Cohen and Kaplan 2007).

A uniform sample may miss the few rows that a narrower range clips: the first token of every text,
say, one row in a hundred. Those that reach farthest up and down are kept too, in the same way, by
keys that put them first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
Take = Callable[[Places], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class RowSample:
    """Rows with the smallest keys.

    Attributes:
        keys: ``(R,)`` uint64.
        rows: ``(R, K)`` float32.
    """

    keys: NDArray[np.uint64]
    rows: NDArray[np.float32]


@lru_cache(maxsize=256)  # a batch's samples are asked for once per tensor
def row_keys(digest: str, count: int) -> NDArray[np.uint64]:
    """Keys of a sample's first `count` rows, ``(count,)`` uint64.

    Args:
        digest: any string that identifies the sample's content.
        count: number of rows.
    """
    seed = hashlib.sha256(digest.encode()).digest()[:8]
    state = np.frombuffer(seed, "<u8") + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(
        0x9E3779B97F4A7C15
    )
    # The finalizer of SplitMix64 (Steele, Lea and Flood 2014); uint64 wraps around.
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    state.setflags(write=False)
    return state


Pick = Literal["any", "high", "low"]
"""Which rows a sample holds: any, or those with the highest or the lowest values."""

PICKS: Final[tuple[Pick, ...]] = get_args(Pick)

FARTHEST = 64
"""Rows that are kept of those with the highest values, and of those with the lowest."""


def most_rows(pick: Pick, limit: int) -> int:
    """How many rows a sample holds, where `limit` are kept of any."""
    return limit if pick == "any" else min(limit, FARTHEST)


def farthest_first(keys: NDArray[np.uint64], reach: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Keys whose order is that of the reach, from the largest to the smallest.

    Args:
        keys: ``(M,)`` uint64; their upper halves decide between rows of the same reach.
        reach: ``(M,)`` float32.

    Returns:
        ``(M,)`` uint64.
    """
    # Adding zero turns -0.0 into 0.0. Bits of floats grow as their magnitudes do.
    bits = (reach + np.float32(0)).view(np.uint32)
    falling = np.where(bits >> 31, bits, ~bits & np.uint32(0x7FFFFFFF))
    return falling.astype(np.uint64) << np.uint64(32) | keys >> np.uint64(32)


def add_rows(
    sample: RowSample | None, keys: NDArray[np.uint64], take: Take, limit: int, *, finite: bool
) -> RowSample | None:
    """The `limit` rows with the smallest keys of a sample and some new rows, in any order.

    Args:
        sample: what was kept so far, or None; it may be changed.
        keys: ``(M,)`` uint64.
        take: gives the rows at some places, ``(P,)`` to ``(P, K)`` float32.
        limit: how many rows to keep.
        finite: whether all rows are known to be finite; others are passed over.
    """
    places = np.arange(len(keys))
    full = sample is not None and len(sample.keys) == limit
    if sample is not None and full:
        places = places[keys < sample.keys.max()]
    places, rows = _smallest(keys, places, take, limit, finite=finite)
    if not len(places):
        return sample
    new = RowSample(keys[places], rows)
    if sample is None or not full:
        return merge_samples([new] if sample is None else [sample, new], limit)
    _replace(sample, new)
    return sample


def _replace(sample: RowSample, new: RowSample) -> None:
    """Put new rows in the place of those with larger keys; the others, most, are not moved."""
    count = len(sample.keys)
    kept = np.argpartition(np.concatenate([sample.keys, new.keys]), count - 1)[:count]
    free = np.ones(count, bool)
    free[kept[kept < count]] = False
    better = kept[kept >= count] - count
    sample.keys[free] = new.keys[better]
    sample.rows[free] = new.rows[better]


def merge_samples(samples: Sequence[RowSample], limit: int) -> RowSample:
    """The `limit` rows with the smallest keys of some samples, in the order of the keys."""
    keys = np.concatenate([sample.keys for sample in samples])
    rows = np.concatenate([sample.rows for sample in samples])
    order = np.argsort(keys, kind="stable")[:limit]
    return RowSample(keys[order], rows[order])


def _smallest(
    keys: NDArray[np.uint64], places: Places, take: Take, limit: int, *, finite: bool
) -> tuple[Places, NDArray[np.float32]]:
    """Of some places, the `limit` with the smallest keys whose rows are finite, and these rows."""
    if finite:
        if len(places) > limit:
            places = places[np.argpartition(keys[places], limit - 1)[:limit]]
        return places, take(places)
    places = places[np.argsort(keys[places], kind="stable")]
    found, rows, count = list[Places](), list[NDArray[np.float32]](), 0
    for start in range(0, len(places), limit):
        some = places[start : start + limit]
        taken = take(some)
        good = np.isfinite(taken).all(axis=1)
        found.append(some[good])
        rows.append(taken[good])
        count += int(good.sum())
        if count >= limit:
            break
    return np.concatenate([places[:0], *found]), np.concatenate([take(places[:0]), *rows])
