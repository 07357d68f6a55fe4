"""Given scales and zero points survive being written as ranges, bit for bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from quantflow.numerics.quantize import QuantParams
from quantflow.ranges.given import ESTIMATOR, given_ranges

scales = st.floats(2.0**-23, 2.0**23, width=32)
zeros = st.integers(-128, 127)


@given(scales, zeros)
def test_scale_and_zero_point_come_back_exactly(scale: float, zero: int) -> None:
    (entry,) = given_ranges({"t": QuantParams(scale, zero)})
    assert entry.params == QuantParams(float(np.float32(scale)), zero)
    assert entry.estimator == ESTIMATOR
    assert entry.symmetric == (zero == 0)


@given(scales, zeros)
def test_the_bounds_are_the_outermost_levels(scale: float, zero: int) -> None:
    (entry,) = given_ranges({"t": QuantParams(scale, zero)})
    lowest = -127 if zero == 0 else -128
    assert entry.low == (lowest - zero) * scale
    assert entry.high == (127 - zero) * scale
