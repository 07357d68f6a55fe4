"""Output metrics: their definitions, and damage that is larger whenever the output is worse."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from quantflow.config import Metric
from quantflow.numerics.output_metrics import (
    OUTPUT_METRICS,
    output_cosine,
    relative_error,
    softmax_kl,
)

OF_OUTPUTS = [name for name, metric in OUTPUT_METRICS.items() if metric.against == "output"]


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_the_table_is_that_of_the_configuration() -> None:
    assert set(OUTPUT_METRICS) == set(get_args(Metric))


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


@settings(max_examples=40, deadline=None)
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


@pytest.mark.parametrize("name", OF_OUTPUTS)
def test_equal_outputs_are_perfect(name: str) -> None:
    metric, a = OUTPUT_METRICS[name], rand(4, 6)
    assert metric.value(a, a) == pytest.approx(metric.perfect, abs=1e-12)
    assert metric.damage(metric.perfect, metric.perfect) == 0


@pytest.mark.parametrize("name", OF_OUTPUTS)
def test_damage_grows_with_noise(name: str) -> None:
    metric, a, noise = OUTPUT_METRICS[name], rand(50, 10), rand(50, 10, seed=1)
    sizes = np.float32([0, 0.01, 0.1, 0.5, 1])
    damages = [metric.damage(metric.value(a, a + size * noise), metric.perfect) for size in sizes]
    assert damages[0] == pytest.approx(0, abs=1e-12)
    assert damages == sorted(damages) and damages[-1] > 0


@pytest.mark.parametrize("name", OF_OUTPUTS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_no_finite_damage(name: str, bad: float) -> None:
    metric, a = OUTPUT_METRICS[name], rand(3, 4)
    other = a.copy()
    other[1, 2] = bad
    with np.errstate(all="raise"):  # and no warning is printed for it
        damage = metric.damage(metric.value(a, other), metric.perfect)
    assert not np.isfinite(damage) and not damage < 0


@pytest.mark.parametrize("name", OF_OUTPUTS)
def test_an_output_of_one_number_can_be_measured(name: str) -> None:
    metric = OUTPUT_METRICS[name]
    assert metric.value(np.float32(2), np.float32(2)) == metric.perfect
    assert np.isfinite(metric.value(np.float32(2), np.float32(1)))


def test_large_outputs_are_measured_in_parts_to_the_same_result() -> None:
    a, b = rand(70, 40_000), rand(70, 40_000, seed=1)  # more positions and elements than a part
    x, y = a.ravel().astype(float), b.ravel().astype(float)
    norm = np.linalg.norm
    assert output_cosine(a, b) == pytest.approx(x @ y / (norm(x) * norm(y)), rel=1e-9)
    assert relative_error(a, b) == pytest.approx(norm(x - y) / norm(x), rel=1e-12)
    p, q = special.log_softmax(a.astype(float), -1), special.log_softmax(b.astype(float), -1)
    assert softmax_kl(a, b) == pytest.approx(float((np.exp(p) * (p - q)).sum(-1).mean()), rel=1e-9)


def test_perplexity_of_samples_is_that_of_their_mean_loss_and_its_damage_a_logarithm() -> None:
    metric, losses, of_float = (
        OUTPUT_METRICS["perplexity"],
        np.array([2.0, 4.0]),
        np.array([1.0, 3]),
    )
    assert metric.over_samples(losses) == pytest.approx(np.exp(3))
    damage = metric.damage(losses, of_float).mean()
    assert damage == pytest.approx(np.log(np.exp(3) / np.exp(2)))
    assert metric.over_samples(np.array([1e4, 1e4])) == np.inf
