"""A histogram counts every value once, exactly, whatever the order, split or magnitude."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from quantflow.ranges.grid import (
    BINS,
    Histogram,
    ascending_counts,
    edges,
    empty,
    merge,
    observe,
)

any_float = hnp.arrays(
    np.float32, st.integers(0, 60), elements=st.floats(width=32, allow_subnormal=True)
)


def _same(a: Histogram, b: Histogram) -> bool:
    return bool((a.counts == b.counts).all()) and (a.low, a.high, a.inf) == (b.low, b.high, b.inf)


@given(any_float)
def test_a_value_is_counted_by_the_upper_half_of_its_bits(values: NDArray[np.float32]) -> None:
    expected = np.zeros(BINS, np.int64)
    for value in values:
        expected[int.from_bytes(value.tobytes(), "little") >> 16] += 1
    assert (observe(values).counts == expected).all()


@given(any_float)
def test_extremes_and_non_finite_values_are_exact(values: NDArray[np.float32]) -> None:
    hist = observe(values)
    finite = values[np.isfinite(values)]
    assert hist.count == len(finite)
    assert hist.nan == np.isnan(values).sum()
    assert hist.inf == np.isinf(values).sum()
    if len(finite):
        assert (hist.low, hist.high) == (finite.min(), finite.max())
        assert hist.absmax == np.abs(finite).max()
    else:
        assert hist.absmax == 0


@given(any_float, st.integers(0, 60), st.randoms(use_true_random=False))
def test_order_and_split_do_not_matter(values: NDArray[np.float32], cut: int, random) -> None:
    shuffled = values.copy()
    order = list(range(len(values)))
    random.shuffle(order)
    shuffled = values[order]
    parts = merge(observe(shuffled[cut:]), observe(shuffled[:cut]))
    assert _same(parts, observe(values))
    assert str(parts.low) == str(observe(values).low)  # 0.0 and -0.0 are told apart by their text


def test_merging_commutes_and_nothing_is_its_neutral_element() -> None:
    a, b = observe(np.float32([1, np.nan, -0.0])), observe(np.float32([np.inf, 0.0, -5]))
    assert _same(merge(a, b), merge(b, a))
    assert _same(merge(a, empty()), a)
    assert empty().count == 0


def test_no_value_is_lost_in_an_array_larger_than_a_chunk() -> None:
    values = np.ones(3 * (1 << 19) + 7, np.float32)
    values[-1] = 2
    hist = observe(values.reshape(1, -1))
    assert hist.count == len(values)
    assert hist.counts[0x4000] == 1


def test_arrays_that_are_not_contiguous_are_read_right() -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert _same(observe(values.T[::2]), observe(values.T[::2].copy()))


@pytest.mark.parametrize("start", [2**24, 2**32, 2**52])
def test_counts_do_not_saturate(start: int) -> None:  # C14
    hist = observe(np.float32([1.5]))
    counts = hist.counts * start
    total = merge(Histogram(counts, 1.5, 1.5), hist)
    assert total.count == start + 1


def test_later_values_inside_the_range_are_counted() -> None:  # C13
    first = observe(np.float32([-10, 10]))
    total = merge(first, observe(np.linspace(-1, 1, 999, dtype=np.float32)))
    assert int(total.counts.sum()) == 1001
    assert (total.low, total.high) == (-10, 10)


def test_a_narrow_batch_does_not_throw_extremes_away() -> None:  # C2
    total = empty()
    for value in (1, 9, 2, 1):
        total = merge(total, observe(np.full((4, 4), value, np.float32)))
    assert (total.low, total.high) == (1, 9)


def test_edges_ascend_and_are_those_of_the_bit_patterns() -> None:
    grid = edges()
    assert len(grid) == 2 * 0x7F80 + 1
    assert (np.diff(grid) > 0).all()
    assert grid[0x7F80] == 0
    assert (grid[0], grid[-1]) == (-(2.0**128), 2.0**128)
    for pattern in (1, 0x0080, 0x3F80, 0x3F81, 0x7F7F):
        (value,) = struct.unpack(">f", struct.pack(">I", pattern << 16))
        assert grid[0x7F80 + pattern] == value
        assert grid[0x7F80 - pattern] == -value


@given(
    hnp.arrays(np.float32, 30, elements=st.floats(width=32, allow_nan=False, allow_infinity=False))
)
def test_ascending_counts_lie_between_their_edges(values: NDArray[np.float32]) -> None:
    counts, grid = ascending_counts(observe(values)), edges()
    assert counts.sum() == len(values)
    for index in np.flatnonzero(counts):
        inside = (values >= grid[index]) & (values <= grid[index + 1])
        assert inside.sum() >= counts[index]


def test_bins_of_normal_values_are_less_than_one_percent_wide() -> None:
    grid = edges()[0x7F80 + 0x80 :]
    assert (np.diff(grid) / grid[:-1]).max() <= 1 / 128


def test_the_sign_of_zero_does_not_reach_the_extremes() -> None:
    for values in ([-0.0], [0.0], [-0.0, 0.0], [0.0, -0.0]):
        hist = observe(np.float32(values))
        assert str((hist.low, hist.high)) == "(0.0, 0.0)"
