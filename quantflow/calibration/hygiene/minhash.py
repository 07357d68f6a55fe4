"""Near duplicates among token sequences, by MinHash (Broder 1997)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.hygiene.banding import connect, different_rows

PERMUTATIONS = 64
"""Minima in a signature; the standard error of the similarity is at most 1/16."""

SHINGLE = 3
"""Tokens in a row that count as one thing."""

NEAR = 0.8
"""Estimated Jaccard similarity of the shingles from which two samples are near duplicates."""

_BANDS, _ROWS = 12, 5
"""A pair at `NEAR` shares a band with probability 0.991, one at a quarter of it with 0.004."""

_AT_ONCE = 8192
"""Shingles that are permuted in one go, which bounds memory."""

_GOLDEN = 0x9E3779B97F4A7C15


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Thirty-two bits that each depend on all of x (SplitMix64, Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x >> np.uint64(32)).astype(np.uint32)


_CONSTANTS = _mixed(np.arange(1, 2 * PERMUTATIONS + 1, dtype=np.uint64) * np.uint64(_GOLDEN))
_FACTORS = _CONSTANTS[:PERMUTATIONS, None] | np.uint32(1)  # odd, so that nothing is lost
_OFFSETS = _CONSTANTS[PERMUTATIONS:, None]


def signature(sequences: Sequence[NDArray[Any]]) -> NDArray[np.uint32]:
    """MinHash signature of a sample.

    The share of equal entries in two signatures estimates the Jaccard similarity of the samples'
    sets of shingles. Permutations are linear modulo 2**32 (Broder et al. 1998) on shingles that are
    hashed first.

    Args:
        sequences: one a token input: integers of any shape, padding left out. A shingle of one is
            another thing than the same shingle of the next.

    Returns:
        ``(PERMUTATIONS,)``.
    """
    found = [_shingles(tokens, place) for place, tokens in enumerate(sequences)]
    hashes = np.concatenate(found)
    least = np.full(PERMUTATIONS, np.iinfo(np.uint32).max, np.uint32)
    for start in range(0, len(hashes), _AT_ONCE):
        permuted = _FACTORS * hashes[start : start + _AT_ONCE]
        permuted += _OFFSETS
        np.minimum(least, permuted.min(axis=1), out=least)
    return least


def near_duplicates(signatures: NDArray[np.uint32]) -> NDArray[np.intp]:
    """Which samples are near duplicates, whatever their order.

    Args:
        signatures: ``(N, PERMUTATIONS)``.

    Returns:
        ``(N,)`` the group of every sample: those whose estimated similarity is at least `NEAR`, and
        those that such samples connect.
    """
    first, kind = different_rows(signatures)
    rows = signatures[first]

    def alike(a: NDArray[np.intp], b: NDArray[np.intp]) -> NDArray[np.bool_]:
        same = np.count_nonzero(rows[a] == rows[b], axis=1)
        return same >= NEAR * PERMUTATIONS

    return connect(_keys(rows), alike)[kind]


def _shingles(tokens: NDArray[Any], place: int) -> NDArray[np.uint32]:
    """Hashes of all shingles; fewer tokens than a shingle has are one of their own kind."""
    flat = np.zeros(max(tokens.size, SHINGLE), np.uint64)
    flat[: tokens.size] = tokens.astype(np.int64).astype(np.uint64).ravel()
    count = len(flat) - SHINGLE + 1
    joined = np.full(count, place * (SHINGLE + 1) + min(tokens.size, SHINGLE), np.uint64)
    for offset in range(SHINGLE):
        joined = joined * np.uint64(_GOLDEN) + flat[offset : offset + count]
    return _mixed(joined)


def _keys(signatures: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """``(N, _BANDS)`` a key for every band of entries."""
    bands = signatures[:, : _BANDS * _ROWS].reshape(-1, _BANDS, _ROWS).astype(np.uint64)
    keys = np.zeros(bands.shape[:2], np.uint64)
    for row in range(_ROWS):
        keys = keys * np.uint64(_GOLDEN) + bands[:, :, row]
    return keys
