"""A bounded sample of a tensor's rows that does not depend on the order in which samples came.

Every row has a key: a hash of its sample's digest and its number within the sample. The rows with
the smallest keys are kept, so the sample is uniform over all rows seen, and two samples merge by
keeping the smallest keys of both (bottom-k sampling; Cohen and Kaplan 2007).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RowSample:
    """Rows with the smallest keys.

    Attributes:
        keys: ``(R,)`` uint64, ascending.
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


def add_rows(
    sample: RowSample | None,
    keys: NDArray[np.uint64],
    rows: NDArray[np.float32],
    limit: int,
) -> RowSample:
    """The `limit` rows with the smallest keys of a sample and some new rows.

    Args:
        sample: what was kept so far, or None.
        keys: ``(M,)`` uint64.
        rows: ``(M, K)`` float32.
        limit: how many rows to keep.
    """
    if sample is not None and len(sample.keys) >= limit:
        below = keys < sample.keys[-1]
        keys, rows = keys[below], rows[below]
        if not len(keys):
            return sample
    if len(keys) > limit:
        near = np.argpartition(keys, limit - 1)[:limit]
        keys, rows = keys[near], rows[near]
    if sample is not None:
        keys = np.concatenate([sample.keys, keys])
        rows = np.concatenate([sample.rows, rows])
    order = np.argsort(keys, kind="stable")[:limit]
    return RowSample(keys[order], rows[order])
