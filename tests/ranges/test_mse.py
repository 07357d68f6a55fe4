"""Expected squared errors against quantizing the values, and MSE bounds against a dense scan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from quantflow.ranges.density import Density, density
from quantflow.ranges.distortion import energy_beyond, squared_error
from quantflow.ranges.grid import observe
from quantflow.ranges.mse import SHARES, mse

from .shapes import adversarial


def _error(values: NDArray[np.float64], low: float, high: float, levels: int) -> float:
    """Mean squared error of rounding to the multiples of the step, clipped to the levels."""
    step = (high - low) / (levels - 1)
    first = np.rint(low / step)
    q = np.clip(np.rint(values / step), first, first + levels - 1)
    return float(np.square(values - q * step).mean())


def _spread(d: Density, per_bin: int) -> NDArray[np.float64]:
    """Values evenly spread over every bin."""
    position = (np.arange(per_bin) + 0.5) / per_bin
    return d.left[:, None] + (d.right - d.left)[:, None] * position


@settings(max_examples=25)
@given(st.floats(0.05, 3), st.floats(0.05, 3), st.floats(0.01, 1), st.integers(0, 99))
def test_the_closed_form_is_the_integral(low: float, high: float, step: float, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal(40).astype(np.float32)
    d = density(observe(values))
    bottom, top = -np.rint(low / step) * step, np.rint(high / step) * step
    x = _spread(d, 4000)
    error = np.square(x - np.clip(np.rint(x / step) * step, bottom, top)).mean(axis=1)
    expected = (error * d.mass).sum() / d.total
    (found,) = squared_error(d, np.array([bottom]), np.array([top]), np.array([step]))
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-9)
    beyond_high = np.where(x > top + step / 2, x**2 - top**2, 0)
    beyond_low = np.where(x < bottom - step / 2, x**2 - bottom**2, 0)
    lost = ((beyond_high + beyond_low).mean(axis=1) * d.mass).sum() / d.total
    (energy,) = energy_beyond(d, np.array([bottom]), np.array([top]), np.array([step]))
    assert energy == pytest.approx(lost, rel=1e-2, abs=1e-3)


@pytest.mark.parametrize("name", ["one-sided", "outlier", "asymmetric", "heavy tail"])
def test_bounds_are_close_to_the_best_of_a_scan_over_the_values(name: str) -> None:
    values = adversarial()[name].astype(np.float64)
    hist = observe(values.astype(np.float32))
    symmetric = mse(hist, symmetric=True)
    top = np.abs(values).max()
    best = min(_error(values, -t, t, 255) for t in np.geomspace(top / 256, top, 300))
    assert _error(values, *symmetric, 255) <= 1.05 * best
    low, high = min(values.min(), 0), max(values.max(), 0)
    asymmetric = mse(hist, symmetric=False)
    side = np.geomspace(1 / 256, 1, 40)
    pairs = [(low * a, high * b) for a in (side if low else [0]) for b in (side if high else [0])]
    best = min(_error(values, a, b, 256) for a, b in pairs)
    assert _error(values, *asymmetric, 256) <= 1.1 * best


def test_bounds_are_the_best_of_the_candidates_by_direct_error() -> None:
    values = np.abs(np.random.default_rng(2).laplace(0, 1, 200_000))
    bound = mse(observe(values.astype(np.float32)), symmetric=False).high
    costs = [_error(values, 0, values.max() * share, 256) for share in SHARES]
    assert bound == pytest.approx(values.max() * SHARES[int(np.argmin(costs))], rel=0.1)


def test_an_outlier_is_clipped_when_rounding_costs_more() -> None:
    values = np.append(np.random.default_rng(0).standard_normal(1_000_000), 60)
    assert mse(observe(values.astype(np.float32)), symmetric=True).high < 20


def test_a_constant_keeps_its_exact_value() -> None:
    assert mse(observe(np.full(9, 3.7, np.float32)), symmetric=False).high == np.float32(3.7)


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_spike_at_zero_does_not_decide(symmetric: bool) -> None:
    values = np.random.default_rng(4).laplace(0.3, 1, 5000).astype(np.float32)
    spiked = np.concatenate([values, np.zeros(500_000, np.float32)])
    assert mse(observe(spiked), symmetric=symmetric) == mse(observe(values), symmetric=symmetric)
