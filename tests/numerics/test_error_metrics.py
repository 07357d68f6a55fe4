"""Cosine, SQNR and bootstrap against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.numerics.bootstrap import bootstrap_interval
from quantflow.numerics.error_metrics import cosine, sqnr_db

from .strategies import FLOAT32_MAX, arrays, moderate


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


# --- cosine ------------------------------------------------------------------------------------


def test_cosine_of_known_angles() -> None:
    reference = rows([1, 0], [1, 0], [1, 0], [1, 1])
    other = rows([2, 0], [0, 3], [-1, 0], [1, 0])
    assert cosine(reference, other) == pytest.approx([1, 0, -1, math.sqrt(0.5)])


def test_zero_vectors_agree_with_each_other_only() -> None:
    assert cosine(rows([0, 0], [0, 0], [1, 0]), rows([0, 0], [1, 0], [0, 0])).tolist() == [1, 0, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_gives_nan_on_either_side(bad: float) -> None:
    for broken in ([bad, 1.0], [bad, 0.0], [bad, bad]):
        for fine in ([1.0, 2.0], [0.0, 0.0], [0.0, 1.0]):
            assert np.isnan(cosine(rows(broken), rows(fine))[0])
            assert np.isnan(cosine(rows(fine), rows(broken))[0])


@pytest.mark.parametrize("size", [1e-45, 1e-38, 1e30, FLOAT32_MAX])
def test_cosine_does_not_depend_on_the_size_of_the_values(size: float) -> None:
    vector = np.full((1, 3), size, np.float32)
    assert cosine(vector, vector) == pytest.approx([1.0])
    assert cosine(vector, -vector) == pytest.approx([-1.0])


def test_everything_after_the_first_axis_is_one_vector() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    assert cosine(a, b) == pytest.approx(cosine(a.reshape(3, 20), b.reshape(3, 20)))
    assert cosine(a, b).shape == (3,)


def test_cosine_of_no_samples_and_of_no_elements() -> None:
    assert cosine(np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32)).shape == (0,)
    empty = np.zeros((2, 0), np.float32)
    assert cosine(empty, empty).tolist() == [1, 1]


@settings(max_examples=100)
@given(arrays(st.just((3, 5)), moderate), arrays(st.just((3, 5)), moderate))
def test_cosine_is_symmetric_and_bounded(a: np.ndarray, b: np.ndarray) -> None:
    value = cosine(a, b)
    assert value == pytest.approx(cosine(b, a))
    assert (np.abs(value) <= 1 + 1e-12).all()


# --- SQNR --------------------------------------------------------------------------------------


def test_sqnr_of_a_tenth_of_the_signal_is_20_db() -> None:
    x = np.array([3.0, -4.0], np.float32)
    assert sqnr_db(x, x * np.float32(0.9)) == pytest.approx(20, abs=1e-4)


def test_sqnr_of_uniform_rounding_is_that_of_the_textbook() -> None:
    # A full-scale sine with b bits: 6.02 b + 1.76 dB (Bennett 1948).
    x = np.sin(np.linspace(0, 2000, 200_001, dtype=np.float64))
    step = 2 / 256
    rounded = np.rint(x / step) * step
    assert sqnr_db(x.astype(np.float32), rounded.astype(np.float32)) == pytest.approx(
        6.02 * 8 + 1.76, abs=0.1
    )


def test_sqnr_without_noise_signal_or_both() -> None:
    one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
    with np.errstate(all="raise"):
        assert sqnr_db(one, one) == math.inf
        assert sqnr_db(zero, one) == -math.inf
        assert math.isnan(sqnr_db(zero, zero))


def test_sqnr_of_the_largest_values_does_not_overflow() -> None:
    x = np.full(1000, FLOAT32_MAX, np.float32)
    assert sqnr_db(x, -x) == pytest.approx(10 * math.log10(0.25))


# --- bootstrap ---------------------------------------------------------------------------------


def test_the_interval_of_a_mean_is_the_normal_one() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(10.0, 2.0, 2000)
    low, high = bootstrap_interval(lambda i: float(values[i].mean()), len(values), seed=1)
    half = 1.959964 * values.std() / math.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_confidence_sets_the_width() -> None:
    values = np.random.default_rng(4).normal(size=500)

    def width(confidence: float) -> float:
        low, high = bootstrap_interval(
            lambda i: float(values[i].mean()), 500, seed=2, resamples=2000, confidence=confidence
        )
        return high - low

    # Ratio of the normal quantiles at 99% and 50%.
    assert width(0.99) / width(0.5) == pytest.approx(2.575829 / 0.674490, rel=0.12)


def test_the_same_seed_gives_the_same_interval_and_another_another() -> None:
    values = np.arange(30.0)

    def interval(seed: int) -> tuple[float, float]:
        return bootstrap_interval(lambda i: float(values[i].mean()), 30, seed=seed)

    assert interval(1) == interval(1) != interval(2)


def test_a_constant_has_no_width() -> None:
    assert bootstrap_interval(lambda i: 0.25, 10, seed=0) == (0.25, 0.25)
    assert bootstrap_interval(lambda i: float(np.mean(i)), 1, seed=0) == (0.0, 0.0)


def test_resamples_that_give_nan_are_left_out_unless_all_do() -> None:
    def correlation(i: np.ndarray) -> float:
        return float("nan") if len(set(i.tolist())) < 2 else 0.5

    assert bootstrap_interval(correlation, 2, seed=0) == (0.5, 0.5)
    low, high = bootstrap_interval(lambda i: math.nan, 2, seed=0)
    assert math.isnan(low) and math.isnan(high)
