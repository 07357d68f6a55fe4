"""KL bounds against a direct implementation of the definition, and where they must lie."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from quantflow.ranges.grid import Histogram, observe
from quantflow.ranges.kl import LinearHistogram, divergences, kl

from .shapes import adversarial

BINS = 2048


def _linear(values: NDArray[np.float32], low: float, high: float) -> NDArray[np.float64]:
    """Mass of each linear bin: every grid bin spread, one after the other, over what it covers."""
    mass = np.zeros(BINS)
    width = (high - low) / BINS
    bits = values.view(np.uint32) >> 16
    for pattern, count in zip(*np.unique(bits, return_counts=True), strict=True):
        ends = (np.array([pattern, pattern + 1], np.uint64) << 16).astype(np.uint32)
        left, right = sorted(ends.view(np.float32).astype(np.float64))
        left, right = max(left, float(values.min())), min(right, float(values.max()))
        starts = low + width * np.arange(BINS)
        if right > left:
            covered = np.minimum(right, starts + width) - np.maximum(left, starts)
            mass += count * np.maximum(covered, 0) / (right - left)
        else:
            mass[min(int((left - low) / width), BINS - 1)] += count
    return mass


def _divergence(mass: NDArray[np.float64], low: float, width: float, i0: int, i1: int, n: int):
    """The definition, for one candidate of the bins i0 to i1 and n levels."""
    inside = mass[i0:i1]
    filled = np.flatnonzero(inside > 1e-12)
    if i1 - i0 < n or not len(filled):
        return np.inf
    reference = inside.copy()
    reference[filled[0]] += mass[:i0].sum()
    reference[filled[-1]] += mass[i1:].sum()
    step = (i1 - i0) * width / (n - 1)
    first = np.rint((low + i0 * width) / step)
    centres = low + (np.arange(i0, i1) + 0.5) * width
    level = np.clip(np.floor(centres / step + 0.5) - first, 0, n - 1).astype(int)
    total = np.bincount(level, inside, minlength=n)
    slots = np.bincount(level, inside > 1e-12, minlength=n)
    image = (total / np.maximum(slots, 1))[level]
    p, q = reference[filled] / reference.sum(), image[filled] / image[filled].sum()
    return float((p * np.log(p / q)).sum())


def _data() -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(3)
    return {
        "normal with outliers": np.append(rng.standard_normal(50_000), [9.3, -7.1]),
        "laplace": rng.laplace(0.2, 1.3, 50_000),
        "two modes": np.append(rng.normal(-2, 0.3, 30_000), rng.normal(4, 1, 20_000)),
        "few values": rng.standard_normal(300) ** 3,
    }


@pytest.mark.parametrize("name", _data())
def test_symmetric_bounds_minimise_the_divergence(name: str) -> None:
    values = _data()[name].astype(np.float32)
    top = float(np.abs(values).max())
    mass, width = _linear(values, -top, top), 2 * top / BINS
    half = BINS // 2
    costs = {
        j: _divergence(mass, -top, width, half - j, half + j, 255) for j in range(128, half + 1)
    }
    found = kl(observe(values), symmetric=True)
    assert found.low == -found.high
    assert costs[round(found.high / width)] == pytest.approx(min(costs.values()), abs=1e-6)


@pytest.mark.parametrize("name", _data())
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("symmetric", "levels"), [(False, 256), (True, 128)])
def test_one_sided_data_use_all_levels_of_their_side(
    name: str, sign: int, symmetric: bool, levels: int
) -> None:  # C15
    values = (sign * np.abs(_data()[name])).astype(np.float32)
    top = float(np.abs(values).max())
    width = top / BINS
    mass = _linear(np.abs(values), 0, top)
    costs = {j: _divergence(mass, 0, width, 0, j, levels) for j in range(levels, BINS + 1)}
    found = kl(observe(values), symmetric=symmetric)
    bound = max(-found.low, found.high)
    if symmetric:
        assert found == (-bound, bound)
    else:
        assert found == ((0, bound) if sign > 0 else (-bound, 0))
    assert costs[round(bound / width)] == pytest.approx(min(costs.values()), abs=1e-6)


@pytest.mark.parametrize("name", _data())
def test_signed_asymmetric_bounds_minimise_the_divergence_side_by_side(name: str) -> None:  # C15
    values = _data()[name].astype(np.float32)
    low, high = float(values.min()), float(values.max())
    mass, width = _linear(values, low, high), (high - low) / BINS
    found = kl(observe(values), symmetric=False)
    i0, i1 = round((found.low - low) / width), round((found.high - low) / width)
    zero = int(-low / width)
    lows = {i: _divergence(mass, low, width, i, i1, 256) for i in range(zero + 1)}
    highs = {i: _divergence(mass, low, width, 0, i, 256) for i in range(zero + 1, BINS + 1)}
    if high < -low:
        lows = {i: _divergence(mass, low, width, i, BINS, 256) for i in range(zero + 1)}
        highs = {i: _divergence(mass, low, width, i0, i, 256) for i in range(zero + 1, BINS + 1)}
    assert lows[i0] == pytest.approx(min(lows.values()), abs=1e-6)
    assert highs[i1] == pytest.approx(min(highs.values()), abs=1e-6)


@pytest.mark.parametrize("symmetric", [False, True])
def test_an_outlier_is_clipped(symmetric: bool) -> None:  # C9
    values = np.append(np.random.default_rng(0).standard_normal(100_000), 60).astype(np.float32)
    assert 3 < kl(observe(values), symmetric=symmetric).high < 30


@pytest.mark.parametrize("zeros", [0, 10_000, 10_000_000, 2**40])
@pytest.mark.parametrize("symmetric", [False, True])
def test_a_spike_at_zero_does_not_decide(zeros: int, symmetric: bool) -> None:
    hist = observe(np.abs(_data()["laplace"]).astype(np.float32))
    counts = hist.counts.copy()
    counts[0] += zeros
    spiked = Histogram(counts, 0.0, hist.high)
    assert kl(spiked, symmetric=symmetric) == kl(hist, symmetric=symmetric)


@pytest.mark.parametrize("name", ["two spikes", "signed spikes", "one bin", "one value"])
def test_ties_go_to_the_wider_range(name: str) -> None:
    # A handful of values fits the levels of any range, so the divergence is zero for all of them.
    values = adversarial()[name]
    found = kl(observe(values), symmetric=False)
    assert found == (min(float(values.min()), 0), max(float(values.max()), 0))


@pytest.mark.parametrize("levels", [128, 255, 256])
@pytest.mark.parametrize("name", _data())
def test_the_divergence_of_each_candidate_is_that_of_the_definition(name: str, levels: int) -> None:
    values = _data()[name].astype(np.float32)
    low, high = float(values.min()), float(values.max())
    mass, width = _linear(values, low, high), (high - low) / BINS
    below = np.concatenate([[0.0], np.cumsum(mass)]) / mass.sum()
    linear = LinearHistogram(low + width * np.arange(BINS + 1), below)
    rng = np.random.default_rng(1)
    zero = int(-low / width)
    starts, ends = rng.integers(0, zero, 60), rng.integers(zero + 1, BINS + 1, 60)
    found = divergences(linear, linear.edges[starts], linear.edges[ends], levels)
    expected = [
        _divergence(mass, low, width, i0, i1, levels) for i0, i1 in zip(starts, ends, strict=True)
    ]
    assert np.isfinite(found).sum() > 20
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)
