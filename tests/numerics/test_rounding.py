"""fp16 against numpy's own float16, FP19 against its definition by powers of two."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quantflow.numerics.rounding import (
    FP16_FLUSH,
    FP16_MAX,
    FP16_SMALLEST_NORMAL,
    round_fp16,
    truncate_fp19,
)

from .strategies import TINY, arrays, finite


def one(value: float) -> np.ndarray:
    return np.array([value], np.float32)


def test_the_bounds_are_those_of_ieee_half_precision() -> None:
    info = np.finfo(np.float16)
    assert float(info.max) == FP16_MAX and float(info.tiny) == FP16_SMALLEST_NORMAL
    assert round_fp16(one(FP16_FLUSH))[0] == 0.0
    above = np.nextafter(np.float32(FP16_FLUSH), np.float32(1))
    assert round_fp16(one(above))[0] == float(info.smallest_subnormal)


@settings(max_examples=200)
@given(finite)
@example(65519.99)
@example(65520.0)
@example(-65520.0)
@example(2049.0)
def test_fp16_rounding_takes_the_nearest_half_with_ties_to_even(value: float) -> None:
    got = float(round_fp16(one(value))[0])
    if abs(value) >= 65520:  # half a step above the largest one
        assert np.isinf(got) and np.sign(got) == np.sign(value)
        return
    exponent = max(np.frexp(abs(value))[1] - 11, -24)  # the unit in the last place of 11 bits
    step = 2.0**exponent
    assert got == float(np.rint(value / step) * step)


def test_fp16_rounding_keeps_nan_and_infinity_and_does_not_warn() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30], np.float32)
    with np.errstate(all="raise"):
        got = round_fp16(x)
    assert np.isnan(got[0]) and got[1:].tolist() == [np.inf, -np.inf, np.inf]


@settings(max_examples=200)
@given(finite.filter(lambda x: abs(x) >= TINY))
def test_fp19_loses_less_than_2_to_the_minus_10_towards_zero(value: float) -> None:
    got = float(truncate_fp19(one(value))[0])
    assert 0 <= (value - got) / value < 2.0**-10


@settings(max_examples=200)
@given(finite.filter(lambda x: abs(x) >= TINY))
def test_fp19_keeps_ten_mantissa_bits(value: float) -> None:
    mantissa, exponent = np.frexp(np.float64(value))
    expected = np.trunc(mantissa * 2**11) / 2**11 * 2.0**exponent
    assert float(truncate_fp19(one(value))[0]) == expected


@given(arrays(st.just((7,))))
def test_fp19_truncation_is_idempotent_and_keeps_the_shape(x: np.ndarray) -> None:
    once = truncate_fp19(x)
    assert once.dtype == np.float32 and once.shape == x.shape
    assert np.array_equal(truncate_fp19(once).view(np.uint32), once.view(np.uint32))


def test_fp19_keeps_powers_of_two_zero_and_infinity() -> None:
    x = np.array([0.0, -0.0, 1.0, -2.0, 2.0**-126, 2.0**127, np.inf, -np.inf], np.float32)
    assert np.array_equal(truncate_fp19(x).view(np.uint32), x.view(np.uint32))


def test_fp19_of_a_slice_leaves_the_original_alone() -> None:
    x = np.full((4, 4), 1 / 3, np.float32)
    truncate_fp19(x[:, 1])
    assert (x == np.float32(1 / 3)).all()
