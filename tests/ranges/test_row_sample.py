"""The row sample depends on what was seen, not on when."""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from quantflow.ranges.row_sample import (
    RowSample,
    add_rows,
    farthest_first,
    merge_samples,
    row_keys,
)


def _rows(digest: str, count: int):
    return np.arange(count * 2, dtype=np.float32).reshape(count, 2) + sum(digest.encode())


def _sample(order: list[int], limit: int, together: int = 1) -> RowSample:
    sample = None
    for start in range(0, len(order), together):
        names = [f"sample {i}" for i in order[start : start + together]]
        keys = np.concatenate([row_keys(name, 9) for name in names])
        rows = np.concatenate([_rows(name, 9) for name in names])
        sample = add_rows(sample, keys, rows.__getitem__, limit, finite=True)
    assert sample is not None
    return merge_samples([sample], limit)


@given(st.permutations(range(12)), st.integers(1, 200), st.integers(1, 12))
def test_order_and_batches_do_not_matter(order: list[int], limit: int, together: int) -> None:
    expected = _sample(list(range(12)), limit)
    found = _sample(order, limit, together)
    assert (found.keys == expected.keys).all()
    assert (found.rows == expected.rows).all()
    assert len(found.rows) == min(limit, 12 * 9)


def test_the_rows_with_the_smallest_keys_are_kept() -> None:
    keys = np.concatenate([row_keys(f"sample {i}", 9) for i in range(12)])
    assert (_sample(list(range(12)), 20).keys == np.sort(keys)[:20]).all()


def test_keys_are_spread_evenly_and_differ() -> None:
    keys = np.concatenate([row_keys(str(i), 500) for i in range(40)])
    assert len(np.unique(keys)) == len(keys)
    counts, _ = np.histogram(keys.astype(np.float64) / 2.0**64, bins=20, range=(0, 1))
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)


def _splitmix64(state: int, count: int) -> list[int]:
    """The published generator (Steele, Lea and Flood 2014) in Python's integers."""
    found: list[int] = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        found.append(z ^ (z >> 31))
    return found


def test_keys_are_splitmix64_seeded_by_the_digest() -> None:
    assert _splitmix64(0, 1) == [0xE220A8397B1DCDAF]  # the generator's known first output
    seed = int.from_bytes(hashlib.sha256(b"some digest").digest()[:8], "little")
    assert [int(key) for key in row_keys("some digest", 20)] == _splitmix64(seed, 20)


def test_rows_that_are_not_finite_are_passed_over() -> None:
    keys, rows = row_keys("a", 50), np.arange(100, dtype=np.float32).reshape(50, 2)
    bad = np.argsort(keys)[:30:2]
    rows[bad, 1] = np.nan
    good = [i for i in np.argsort(keys) if i not in bad]
    for step in (50, 7):  # all at once, or a few at a time
        sample = None
        for start in range(0, 50, step):
            part = slice(start, start + step)
            sample = add_rows(sample, keys[part], rows[part].__getitem__, 9, finite=False)
        assert sample is not None
        found = merge_samples([sample], 9)
        assert (found.keys == keys[good[:9]]).all()
        assert (found.rows == rows[good[:9]]).all()


@given(
    st.lists(
        st.one_of(st.sampled_from([0.0, -0.0, 1.0]), st.floats(width=32, allow_nan=False)),
        min_size=1,
    )
)
def test_the_farthest_come_first_and_keys_decide_between_equals(reach: list[float]) -> None:
    keys = row_keys("a", len(reach))
    found = farthest_first(keys, np.array(reach, np.float32))
    expected = sorted(range(len(reach)), key=lambda i: (-reach[i], keys[i] >> np.uint64(32)))
    assert np.argsort(found, kind="stable").tolist() == expected


@given(st.permutations(range(12)), st.integers(1, 60), st.integers(1, 12))
def test_the_farthest_rows_are_the_same_in_any_order(
    order: list[int], limit: int, together: int
) -> None:
    values = np.random.default_rng(0).standard_normal((12, 9, 4)).astype(np.float32)
    sample = None
    for start in range(0, 12, together):
        some = order[start : start + together]
        rows = np.concatenate([values[i] for i in some])
        keys = np.concatenate([row_keys(f"sample {i}", 9) for i in some])
        far = farthest_first(keys, rows.max(axis=1))
        sample = add_rows(sample, far, rows.__getitem__, limit, finite=True)
    assert sample is not None
    found = merge_samples([sample], limit).rows
    every = values.reshape(-1, 4)
    assert (found == every[np.argsort(-every.max(axis=1))[:limit]]).all()
