"""Percentiles from the histogram agree with numpy's on the values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.ranges.grid import Histogram, observe
from quantflow.ranges.percentile import percentile

from .shapes import adversarial


@pytest.mark.parametrize("name", adversarial())
@pytest.mark.parametrize("share", [51.0, 90.0, 99.0, 99.9, 99.99, 100.0])
@pytest.mark.parametrize("symmetric", [False, True])
def test_each_bound_is_within_one_percent_of_numpy(
    name: str, share: float, symmetric: bool
) -> None:
    values = adversarial()[name].astype(np.float64)
    found = percentile(observe(values.astype(np.float32)), percentile=share, symmetric=symmetric)
    if symmetric:
        bound = np.percentile(np.abs(values), share)
        expected = (-bound, bound)
    else:
        expected = tuple(np.percentile(values, [100 - share, share]))
    # Below 2^-126 float32 has no relative precision: a bin is 2^-133 wide.
    assert found == pytest.approx(expected, rel=0.01, abs=2.0**-133)


@given(st.floats(50.5, 100), st.floats(1e-3, 1e3), st.floats(-1, 1))
def test_uniform_data_have_the_quantiles_of_their_definition(
    share: float, width: float, shift: float
) -> None:  # C10
    values = (np.linspace(0, 1, 5001) + shift) * width
    found = percentile(observe(values.astype(np.float32)), percentile=share, symmetric=False)
    low, high = (1 - share / 100 + shift) * width, (share / 100 + shift) * width
    assert found.low == pytest.approx(low, rel=1 / 128, abs=width / 2500)
    assert found.high == pytest.approx(high, rel=1 / 128, abs=width / 2500)


def test_symmetric_bounds_are_symmetric_and_keep_the_share_inside() -> None:  # C10
    values = np.random.default_rng(0).normal(1, 2, 100_000).astype(np.float32)
    found = percentile(observe(values), percentile=99, symmetric=True)
    assert found.low == -found.high
    assert (np.abs(values) <= found.high).mean() == pytest.approx(0.99, abs=1e-3)


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_hundredth_percentile_is_the_exact_extreme(symmetric: bool) -> None:
    values = np.float32([-1.2345678, 0.5, 1.1111111])
    found = percentile(observe(values), percentile=100, symmetric=symmetric)
    assert found.low == values[0]
    assert found.high == (-values[0] if symmetric else values[2])


def test_counts_beyond_32_bits_are_told_apart() -> None:
    hist = observe(np.float32([1.0, 2.0]))
    counts = hist.counts.copy()
    counts[0x3F80] = 2**33 * 999
    counts[0x4000] = 2**33
    heavy = Histogram(counts, 1.0, 2.0)
    assert percentile(heavy, percentile=99.8, symmetric=False).high == pytest.approx(1, rel=0.01)
    assert percentile(heavy, percentile=99.95, symmetric=False).high == 2


def test_values_of_one_bin_are_taken_as_evenly_spread() -> None:
    values = np.float32([1.0, 1.001, 1.002, 1.003, 1.004])
    found = percentile(observe(values), percentile=75, symmetric=False)
    assert found == pytest.approx((1.001, 1.003), abs=3e-4)
