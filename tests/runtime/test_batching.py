"""Batches of one fixed size: padding, mixed shapes, and nothing that depends on the company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.runtime.batching import batches


def samples(*lengths: int) -> list[dict[str, Any]]:
    return [{"x": np.full(n, i, np.float32), "id": np.int64(i)} for i, n in enumerate(lengths)]


@settings(max_examples=100)
@given(st.lists(st.integers(1, 4), max_size=30), st.integers(1, 7))
def test_every_sample_is_in_exactly_one_batch_of_the_given_size(
    lengths: list[int], size: int
) -> None:
    given_samples = samples(*lengths)
    seen = list[int]()
    for batch in batches(given_samples, size):
        assert all(len(array) == size for array in batch.feeds.values())
        assert 1 <= batch.count == len(batch.indices) <= size
        for row in range(size):
            index = batch.indices[min(row, batch.count - 1)]  # padding repeats the last sample
            for name, array in given_samples[index].items():
                assert np.array_equal(batch.feeds[name][row], array)
        seen += batch.indices
    assert sorted(seen) == list(range(len(lengths)))


@settings(max_examples=50)
@given(st.lists(st.integers(1, 3), max_size=25), st.integers(1, 6))
def test_only_the_last_batch_of_a_shape_is_padded_and_order_is_kept_within_it(
    lengths: list[int], size: int
) -> None:
    by_length = dict[int, list[tuple[int, ...]]]()
    for batch in batches(samples(*lengths), size):
        by_length.setdefault(batch.feeds["x"].shape[1], []).append(batch.indices)
    for length, groups in by_length.items():
        assert [len(group) for group in groups[:-1]] == [size] * (len(groups) - 1)
        flat = [index for group in groups for index in group]
        assert flat == [i for i, n in enumerate(lengths) if n == length]


def test_batches_of_one_shape_keep_the_order_of_the_samples() -> None:
    found = [batch.indices for batch in batches(samples(*[4] * 7), 3)]
    assert found == [(0, 1, 2), (3, 4, 5), (6,)]


def test_memory_holds_one_waiting_batch_a_shape() -> None:
    # A generator that counts: no sample is asked for before the ones ahead of it are delivered.
    asked = 0

    def endless():
        nonlocal asked
        while True:
            asked += 1
            yield {"x": np.zeros(3, np.float32)}

    stream = batches(endless(), 4)
    next(stream)
    next(stream)
    assert asked == 8


def test_no_samples_give_no_batches() -> None:
    assert list(batches([], 4)) == []


def test_inputs_that_differ_in_one_shape_only_are_kept_apart() -> None:
    a = {"x": np.zeros(3), "y": np.zeros(2)}
    b = {"x": np.zeros(3), "y": np.zeros(1)}
    assert [batch.indices for batch in batches([a, b, a], 2)] == [(0, 2), (1,)]


@pytest.mark.parametrize("size", [1, 3, 8])
def test_the_rows_of_a_sample_do_not_depend_on_how_many_samples_there_are(size: int) -> None:
    # C5: with a fixed compute batch, the arithmetic that a sample sees has one shape only.
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((64, 33)).astype(np.float32)
    data = [{"x": rng.standard_normal(64).astype(np.float32)} for _ in range(11)]

    def results(count: int) -> dict[int, bytes]:
        found = dict[int, bytes]()
        for batch in batches(data[:count], size):
            y = batch.feeds["x"] @ weight
            found |= {index: y[row].tobytes() for row, index in enumerate(batch.indices)}
        return found

    everything = results(11)
    for count in (1, 4, 10):
        alone = results(count)
        assert alone == {index: everything[index] for index in range(count)}
