"""Far rows are a stratum of their own, and every row counts as much as what it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.ranges.strata import strata


def _rows(count: int, seed: int = 0):
    return np.random.default_rng(seed).standard_normal((count, 3)).astype(np.float32)


@given(st.integers(1, 40), st.integers(0, 12), st.integers(0, 12), st.integers(0, 2**16))
def test_weights_are_the_numbers_of_rows_that_each_stands_for(
    some: int, high: int, low: int, seed: int
) -> None:
    every = _rows(50, seed)
    by_top, by_bottom = np.argsort(-every.max(axis=1)), np.argsort(every.min(axis=1))
    kinds = every[by_top[:high]], every[by_bottom[:low]]
    found = strata(every[:some], kinds, len(every))
    far = {row.tobytes() for rows in kinds for row in rows}
    assert {x.tobytes() for x in found.rows} == far | {x.tobytes() for x in every[:some]}
    assert len(found.rows) == len({x.tobytes() for x in found.rows})
    is_far = np.array([x.tobytes() in far for x in found.rows])
    if is_far.all():
        assert found.weights == pytest.approx(1.0)
    else:
        each = (50 - len(far)) / (~is_far).sum()
        expected = np.where(is_far, 1.0, each)
        assert found.weights == pytest.approx(expected / expected.mean())


def test_all_rows_give_the_plain_mean() -> None:
    every = _rows(30)
    found = strata(every, (every[:5], every[3:9]), 30)
    assert found.weights == pytest.approx(1.0)
    assert len(found.rows) == 30


def test_rows_seen_twice_stay_two_of_the_farthest() -> None:
    every = _rows(8)
    twice = np.concatenate([every[:2], every[:2]])
    found = strata(every[4:], (twice, every[:0]), 8)
    assert len(found.rows) == 8
    assert [len(rows) for rows in found.farthest] == [4]


def test_the_weighted_mean_is_that_of_all_rows_on_average() -> None:
    every = _rows(400, 1)
    every[:4] *= 50  # what a uniform sample mostly misses
    exact = np.square(every).mean()
    by_top, by_bottom = np.argsort(-every.max(axis=1)), np.argsort(every.min(axis=1))
    kinds = every[by_top[:8]], every[by_bottom[:8]]
    rng, means, plain = np.random.default_rng(2), list[float](), list[float]()
    for _ in range(300):
        some = every[rng.choice(400, 40, replace=False)]
        found = strata(some, kinds, 400)
        squares = np.square(found.rows).mean(axis=1)
        means.append(float((found.weights * squares).mean()))
        plain.append(float(np.square(some).mean()))
    assert np.mean(means) == pytest.approx(exact, rel=0.02)
    assert np.std(means) < 0.1 * np.std(plain)


def test_nothing_to_judge_by() -> None:
    found = strata(np.zeros((0, 0), np.float32), (), 0)
    assert not len(found.rows) and not len(found.weights) and found.farthest == ()
