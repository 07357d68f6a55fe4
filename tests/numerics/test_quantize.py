"""Quantization, checked against its definition ``q = clip(rint(x / s) + z, -128, 127)``."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quantflow.numerics.quantize import (
    QuantParams,
    activation_params,
    dequantize,
    dequantize_weight,
    quantize,
    quantize_weight,
    weight_scales,
)

from .strategies import FLOAT32_MAX, TINY, arrays, finite, moderate, ranges


def beyond(x: np.ndarray) -> np.ndarray:
    """What bounds cut off of float32's largest values, so that the last level is finite."""
    return np.maximum(np.abs(x.astype(np.float64)) - FLOAT32_MAX * (1 - 2.0**-7), 0)


FAST = settings(max_examples=150)


def inside(low: float, high: float, count: int = 257) -> np.ndarray:
    """Points of ``[low, high]``, the ends and zero included."""
    steps = np.linspace(0, 1, count)
    points = np.float64(low) * (1 - steps) + np.float64(high) * steps
    return np.r_[points, low, high, 0.0].astype(np.float32)


# --- activations -------------------------------------------------------------------------------


@FAST
@given(ranges(), st.booleans())
@example((-FLOAT32_MAX, FLOAT32_MAX), False)
@example((-FLOAT32_MAX, FLOAT32_MAX), True)
@example((0.0, 1e-45), False)
def test_zero_is_exact(bounds: tuple[float, float], symmetric: bool) -> None:
    params = activation_params(*bounds, symmetric=symmetric)
    zero = np.zeros(1, np.float32)
    assert quantize(zero, params)[0] == params.zero_point
    assert dequantize(quantize(zero, params), params)[0] == 0.0


@FAST
@given(ranges(), st.booleans())
@example((-FLOAT32_MAX, FLOAT32_MAX), False)
@example((-FLOAT32_MAX, FLOAT32_MAX), True)
@example((0.0, FLOAT32_MAX), False)
@example((-FLOAT32_MAX, 0.0), False)
@example((-1e-40, 1e-45), False)
def test_the_error_inside_the_range_is_at_most_half_a_step(
    bounds: tuple[float, float], symmetric: bool
) -> None:
    params = activation_params(*bounds, symmetric=symmetric)
    x = inside(min(bounds[0], 0.0), max(bounds[1], 0.0))
    restored = dequantize(quantize(x, params), params)
    # The reciprocal and the products are rounded to float32, each by at most 2^-23 of 255 steps.
    tolerance = params.scale * (0.5 + 255 * 3 * 2.0**-23) + beyond(x)
    assert np.isfinite(restored).all()
    assert (np.abs(restored.astype(np.float64) - x) <= tolerance).all()


@FAST
@given(ranges(), st.booleans())
def test_the_parameters_are_float32_and_int8(bounds: tuple[float, float], symmetric: bool) -> None:
    params = activation_params(*bounds, symmetric=symmetric)
    assert params.scale > 0 and params.scale == float(np.float32(params.scale))
    assert -128 <= params.zero_point <= 127
    assert np.isfinite(params.multiplier) and params.multiplier > 0
    assert not symmetric or params.zero_point == 0


@FAST
@given(ranges(moderate))
def test_the_scale_is_the_width_over_the_number_of_steps(bounds: tuple[float, float]) -> None:
    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    if high - low < 1e-30:
        return
    asymmetric = activation_params(*bounds, symmetric=False)
    symmetric = activation_params(*bounds, symmetric=True)
    assert asymmetric.scale == pytest.approx((high - low) / 255, rel=1e-6)
    assert symmetric.scale == pytest.approx(max(-low, high) / 127, rel=1e-6)


def test_known_parameters() -> None:
    assert activation_params(-1.0, 1.0, symmetric=True).scale == pytest.approx(1 / 127)
    assert activation_params(0.0, 255.0, symmetric=False) == QuantParams(1.0, -128)
    assert activation_params(-255.0, 0.0, symmetric=False) == QuantParams(1.0, 127)
    assert activation_params(-128.0, 127.0, symmetric=False) == QuantParams(1.0, 0)
    # The range is widened to contain zero.
    assert activation_params(10.0, 255.0, symmetric=False) == QuantParams(1.0, -128)


@FAST
@given(finite, st.booleans())
@example(1e-45, False)
@example(-FLOAT32_MAX, True)
@example(3.376242151655127e38, False)
def test_a_constant_tensor_is_exact_to_float_rounding(value: float, symmetric: bool) -> None:
    params = activation_params(value, value, symmetric=symmetric)
    x = np.full(5, value, np.float32)
    restored = dequantize(quantize(x, params), params)
    # Below the smallest scale there is no telling a value from zero.
    allowed = 2.0**-20 * abs(value) + TINY / 2 + float(beyond(x)[0])
    assert restored == pytest.approx(x, rel=0, abs=allowed)


@pytest.mark.parametrize("symmetric", [True, False])
def test_an_all_zero_tensor_has_a_finite_positive_scale(symmetric: bool) -> None:
    assert activation_params(0.0, 0.0, symmetric=symmetric) == QuantParams(1.0, 0)


@pytest.mark.parametrize("bounds", [(math.nan, 1.0), (0.0, math.inf), (-math.inf, 0.0)])
@pytest.mark.parametrize("symmetric", [True, False])
def test_bounds_that_are_not_finite_are_refused(
    bounds: tuple[float, float], symmetric: bool
) -> None:
    with pytest.raises(ValueError, match="finite"):
        activation_params(*bounds, symmetric=symmetric)


def test_values_outside_the_range_saturate() -> None:
    params = activation_params(-1.0, 3.0, symmetric=False)
    x = np.array([-np.inf, -1e30, 1e30, np.inf, FLOAT32_MAX], np.float32)
    assert quantize(x, params).tolist() == [-128, -128, 127, 127, 127]


def test_ties_go_to_the_even_step() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
    assert quantize(x, QuantParams(1.0, 0)).tolist() == [0, 2, 2, 0, -2]
    # The zero point is added after rounding, so that it does not change which one is even.
    assert quantize(x, QuantParams(1.0, 1)).tolist() == [1, 3, 3, 1, -1]


@FAST
@given(ranges(moderate), arrays(st.just((32,)), moderate))
def test_quantization_agrees_with_the_definition_in_exact_arithmetic(
    bounds: tuple[float, float], x: np.ndarray
) -> None:
    params = activation_params(*bounds, symmetric=False)
    exact = x.astype(np.float64) * float(params.multiplier)
    expected = np.clip(np.rint(exact) + params.zero_point, -128, 127)
    got = quantize(x, params)
    near_tie = np.abs(np.abs(exact - np.trunc(exact)) - 0.5) < 1e-4
    assert (got == expected)[~near_tie].all()
    assert (np.abs(got - expected) <= 1).all()


# --- weights -----------------------------------------------------------------------------------


shapes = st.tuples(st.integers(1, 5), st.integers(1, 6))


@FAST
@given(arrays(shapes), st.sampled_from([None, 0, 1, -1, -2]))
def test_the_error_of_a_weight_is_at_most_half_a_step_of_its_channel(
    weight: np.ndarray, axis: int | None
) -> None:
    scales = weight_scales(weight, axis)
    restored = dequantize_weight(quantize_weight(weight, scales, axis), scales, axis)
    step = scales.reshape((1, 1) if axis is None else (-1, 1) if axis in (0, -2) else (1, -1))
    assert np.isfinite(restored).all()
    error = np.abs(restored.astype(np.float64) - weight)
    tolerance = step.astype(np.float64) * (0.5 + 127 * 3 * 2.0**-23)
    assert (error <= tolerance + beyond(weight)).all()


@FAST
@given(arrays(shapes), st.sampled_from([None, 0, 1]))
def test_weight_scales_are_positive_and_their_reciprocal_is_finite(
    weight: np.ndarray, axis: int | None
) -> None:
    scales = weight_scales(weight, axis)
    assert scales.dtype == np.float32 and len(scales) == (1 if axis is None else weight.shape[axis])
    with np.errstate(over="raise"):
        assert np.isfinite(np.float32(1) / scales).all() and (scales > 0).all()


def test_a_channel_of_zeros_stays_zero_and_does_not_touch_the_others() -> None:
    weight = np.array([[0.0, 0.0], [1.27, -0.5]], np.float32)
    scales = weight_scales(weight, 0)
    assert scales[0] == 1.0 and scales[1] == pytest.approx(0.01)
    assert quantize_weight(weight, scales, 0).tolist() == [[0, 0], [127, -50]]


def test_an_all_zero_weight_is_exact_at_both_granularities() -> None:
    weight = np.zeros((3, 4), np.float32)
    for axis in (None, 0, 1):
        scales = weight_scales(weight, axis)
        assert (scales == 1).all()
        assert not dequantize_weight(quantize_weight(weight, scales, axis), scales, axis).any()


def test_the_largest_magnitude_of_each_channel_gets_the_last_level() -> None:
    weight = np.array([[1.0, -100.0], [-2.0, 50.0]], np.float32)
    for axis, absmax in ((0, [100, 50]), (1, [2, 100]), (-1, [2, 100])):
        assert weight_scales(weight, axis) == pytest.approx(np.array(absmax) / 127)
    assert weight_scales(weight, None) == pytest.approx([100 / 127])


def test_a_weight_never_uses_the_level_minus_128() -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((64, 64)).astype(np.float32)
    for axis in (None, 0, 1):
        q = quantize_weight(weight, weight_scales(weight, axis), axis)
        assert q.min() >= -127 and q.max() <= 127


def test_per_channel_is_never_worse_for_a_depthwise_kernel_with_tiny_channels() -> None:
    # C25: folding a BatchNorm leaves channels of nearly zero scale.
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((16, 1, 3, 3)).astype(np.float32)
    weight *= np.logspace(-42, 1, 16, dtype=np.float64).reshape(-1, 1, 1, 1).astype(np.float32)
    per_channel, per_tensor = weight_scales(weight, 0), weight_scales(weight, None)
    assert per_channel.shape == (16,) and (per_channel > 0).all()

    def channel_error(scales: np.ndarray, axis: int | None) -> np.ndarray:
        restored = dequantize_weight(quantize_weight(weight, scales, axis), scales, axis)
        return np.square(restored.astype(np.float64) - weight).sum((1, 2, 3))

    fine, coarse = channel_error(per_channel, 0), channel_error(per_tensor, None)
    assert (fine <= coarse).all()
    # All channels above the smallest scale keep 7 bits; per tensor, most of them vanish.
    energy = np.square(weight.astype(np.float64)).sum((1, 2, 3))
    assert (fine[3:] < 1e-4 * energy[3:]).all()
    assert (coarse[:10] > 0.5 * energy[:10]).all()


def test_a_single_value_is_exact() -> None:
    weight = np.array([[-0.3]], np.float32)
    for axis in (None, 0, 1):
        scales = weight_scales(weight, axis)
        restored = dequantize_weight(quantize_weight(weight, scales, axis), scales, axis)
        assert restored == pytest.approx(weight, rel=2.0**-20)
