"""Every estimator gives usable bounds for every tensor."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from quantflow.config import Estimator
from quantflow.numerics.quantize import activation_params, dequantize, quantize
from quantflow.ranges.estimators import ESTIMATORS, EstimatorSettings, candidates
from quantflow.ranges.grid import Histogram, empty, merge, observe

from .shapes import adversarial

NONFINITE = np.float32([np.nan, np.inf, -np.inf, np.nan])


def test_the_table_has_the_names_of_the_configuration() -> None:
    assert {*ESTIMATORS, "auto"} == set(get_args(Estimator))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("name", adversarial())
def test_bounds_are_finite_ordered_and_inside_the_observed_range(
    name: str, symmetric: bool, estimator: str
) -> None:  # C12
    values = adversarial()[name]
    bounds = ESTIMATORS[estimator](observe(values), EstimatorSettings(symmetric=symmetric))
    assert np.isfinite(bounds).all()
    assert bounds.low <= bounds.high
    reach = float(np.abs(values).max())
    assert max(abs(bounds.low), abs(bounds.high)) <= reach
    if symmetric:
        assert bounds.low == -bounds.high
    params = activation_params(*bounds, symmetric=symmetric)
    assert np.isfinite(params.scale) and params.scale > 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("constant", [0.0, 3.7, -0.01, 1e30, 1e-30])
def test_a_constant_is_exact(constant: float, symmetric: bool, estimator: str) -> None:  # C12
    values = np.full((3, 5), constant, np.float32)
    bounds = ESTIMATORS[estimator](observe(values), EstimatorSettings(symmetric=symmetric))
    params = activation_params(*bounds, symmetric=symmetric)
    result = dequantize(quantize(values, params), params)
    np.testing.assert_allclose(result, values, rtol=1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("symmetric", [False, True])
def test_non_finite_values_leave_the_bounds_alone(estimator: str, symmetric: bool) -> None:  # C11
    values = adversarial()["asymmetric"]
    estimate, settings = ESTIMATORS[estimator], EstimatorSettings(symmetric=symmetric)
    clean, dirty = observe(values), observe(np.concatenate([values, NONFINITE]))
    assert estimate(dirty, settings) == estimate(clean, settings)
    only = estimate(observe(NONFINITE), settings)
    assert only == estimate(empty(), settings) == (0, 0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_ten_times_the_same_values_give_the_same_bounds(estimator: str) -> None:
    hist = observe(adversarial()["asymmetric"])
    total = empty()
    for _ in range(10):
        total = merge(total, hist)
    settings = EstimatorSettings(percentile=99)
    expected = ESTIMATORS[estimator](hist, settings)
    assert ESTIMATORS[estimator](total, settings) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("name", ["asymmetric", "heavy tail", "zero spike", "denormals"])
def test_counts_beyond_32_bits_give_the_bounds_of_their_shares(
    name: str, symmetric: bool, estimator: str
) -> None:  # C14
    hist = observe(adversarial()[name])
    many = Histogram(hist.counts * 2**36, hist.low, hist.high)
    assert many.counts.max() > 2**32 and many.count == hist.count * 2**36
    settings = EstimatorSettings(symmetric=symmetric, percentile=99)
    expected = ESTIMATORS[estimator](hist, settings)
    assert ESTIMATORS[estimator](many, settings) == pytest.approx(expected, rel=0.01, abs=1e-43)


def test_candidates_hold_every_estimator_and_shrunken_extremes() -> None:
    found = candidates(observe(np.float32([-2, 4, 1])), EstimatorSettings())
    assert set(ESTIMATORS) <= set(found)
    assert found["minmax"] == (-2, 4)
    assert found["minmax*0.5"] == (-1, 2)
