"""Distances of one output from another, by their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from quantflow.numerics.output_metrics import (
    noise_to_signal,
    output_cosine,
    relative_error,
    softmax_kl,
)

DISTANCES = {
    "cosine": lambda a, b: 1 - output_cosine(a, b),
    "relative_error": relative_error,
    "noise_to_signal": noise_to_signal,
    "kl": softmax_kl,
}


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_cosine_is_that_of_all_elements_as_one_vector() -> None:
    a, b = rand(3, 5), rand(3, 5, seed=1)
    x, y = a.ravel().astype(float), b.ravel().astype(float)
    expected = x @ y / np.sqrt((x @ x) * (y @ y))
    assert output_cosine(a, b) == pytest.approx(expected, rel=1e-12)


def test_relative_error_is_a_ratio_of_norms() -> None:
    assert relative_error(np.float32([3, 4]), np.float32([3, 5])) == pytest.approx(1 / 5)
    assert relative_error(np.float32([[3], [4]]), np.float32([[0], [0]])) == 1
    zero = np.zeros(3, np.float32)
    assert (
        relative_error(zero, zero) == 0 and relative_error(zero, np.ones(3, np.float32)) == np.inf
    )


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_noise_to_signal_is_a_ratio_of_energies(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(size=(size, 3)).astype(np.float32) for _ in range(2))
    pairs = [(float(x), float(y)) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
    energy = sum(x * x for x, _ in pairs)
    assert noise_to_signal(a, b) == pytest.approx(
        sum((x - y) ** 2 for x, y in pairs) / energy, rel=1e-12
    )
    assert noise_to_signal(a, b) == pytest.approx(relative_error(a, b) ** 2)


def test_noise_on_nothing_is_infinite_and_nothing_on_nothing_is_none() -> None:
    zero = np.zeros(3, np.float32)
    assert noise_to_signal(zero, zero) == 0
    assert noise_to_signal(zero, np.ones(3, np.float32)) == np.inf


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9))
def test_kl_is_that_of_scipy_averaged_over_positions(seed: int, rows: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(scale=5, size=(rows, classes)).astype(np.float32) for _ in range(2))
    p, q = special.softmax(a.astype(float), -1), special.softmax(b.astype(float), -1)
    expected = float(np.mean([stats.entropy(x, y) for x, y in zip(p, q, strict=True)]))
    assert softmax_kl(a, b) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_kl_of_large_logits_does_not_overflow() -> None:
    a, b = np.float32([1e4, 0, -1e4]), np.float32([0, 1e4, -1e4])
    assert softmax_kl(a, b) == pytest.approx(1e4)
    assert softmax_kl(a, a + np.float32(100)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", DISTANCES)
def test_an_output_has_no_distance_from_itself_and_more_with_noise(name: str) -> None:
    a, noise = rand(50, 10), rand(50, 10, seed=1)
    sizes = np.float32([0, 0.01, 0.1, 0.5, 1])
    found = [DISTANCES[name](a, a + size * noise) for size in sizes]
    assert found[0] == pytest.approx(0, abs=1e-12)
    assert found == sorted(found) and found[-1] > 0


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_no_finite_distance(name: str, bad: float) -> None:
    a = rand(3, 4)
    other = a.copy()
    other[1, 2] = bad
    with np.errstate(all="raise"):  # and no warning is printed for it
        found = DISTANCES[name](a, other)
    assert not np.isfinite(found) and not found < 0


@pytest.mark.parametrize("name", DISTANCES)
def test_an_output_of_one_number_can_be_measured(name: str) -> None:
    assert DISTANCES[name](np.float32(2), np.float32(2)) == 0
    assert np.isfinite(DISTANCES[name](np.float32(2), np.float32(1)))


def test_large_outputs_are_measured_in_parts_to_the_same_result() -> None:
    a, b = rand(70, 40_000), rand(70, 40_000, seed=1)  # more positions and elements than a part
    x, y = a.ravel().astype(float), b.ravel().astype(float)
    norm = np.linalg.norm
    assert output_cosine(a, b) == pytest.approx(x @ y / (norm(x) * norm(y)), rel=1e-9)
    assert relative_error(a, b) == pytest.approx(norm(x - y) / norm(x), rel=1e-12)
    p, q = special.log_softmax(a.astype(float), -1), special.log_softmax(b.astype(float), -1)
    assert softmax_kl(a, b) == pytest.approx(float((np.exp(p) * (p - q)).sum(-1).mean()), rel=1e-9)
