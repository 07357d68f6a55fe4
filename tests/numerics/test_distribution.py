"""Rows that are probabilities, and their divergence by definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr

from quantflow.numerics.distribution import FLOOR, divergence, is_distribution


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


@given(st.integers(0, 1000), st.integers(2, 20))
def test_divergence_is_that_of_scipy(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = (softmax(rng.normal(size=(3, width))) for _ in range(2))
    found, rows = divergence(p, q)
    assert rows == 3
    assert found == pytest.approx(float(rel_entr(p.astype(float), q).sum()), abs=1e-5)


def test_underflow_costs_what_the_floor_says() -> None:
    p, q = np.float32([[0.5, 0.5]]), np.float32([[1.0, 0.0]])
    assert divergence(p, q)[0] == pytest.approx(0.5 * np.log(0.5 / FLOOR) + 0.5 * np.log(0.5), 1e-5)
    assert divergence(p, p)[0] == 0.0
    assert divergence(p, np.float32([[np.nan, 1]]))[0] == np.inf


def test_what_a_distribution_is() -> None:
    rows = softmax(np.random.default_rng(0).normal(size=(2, 3, 5)))
    assert is_distribution(rows) and is_distribution(rows.astype(np.float16).astype(np.float32))
    assert not is_distribution(rows * 0.9)
    assert not is_distribution(rows[0, 0])  # a vector has no rows
    assert not is_distribution(np.float32([[-0.5, 1.5]]))
    assert not is_distribution(np.ones((4, 1), np.float32))  # one class tells nothing
    assert not is_distribution(np.float32([[np.nan, 1.0]]))
    assert not is_distribution(np.zeros((0, 3), np.float32))
