"""What is measured of an array is what its definition says, bit pattern by bit pattern."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from quantflow.ranges import fp16_probe
from quantflow.ranges.fp16_probe import measure

EDGES = [2.0**-14, 2.0**-25, 65504.0, 0.0, 1e-45, float(np.finfo(np.float32).max), np.inf, np.nan]


def patterns_around(value: float) -> list[int]:
    """The patterns of a value and of its neighbours, of either sign."""
    at = int(np.float32(value).view(np.uint32))
    return [sign | x for x in (at - 1, at, at + 1) if 0 <= x < 1 << 31 for sign in (0, 1 << 31)]


patterns = st.one_of(
    st.sampled_from([x for value in EDGES for x in patterns_around(value)]),
    st.integers(0, 2**32 - 1),
)


def by_definition(values: NDArray[np.float32]) -> tuple[float, bool, float, float]:
    """Computed in float64 and float16, value by value."""
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        wide = values.astype(np.float64).ravel()
    finite = wide[np.isfinite(wide)]
    with np.errstate(over="ignore"):
        half = finite.astype(np.float32).astype(np.float16)
    absmax = float(np.abs(finite).max(initial=0))
    subnormal = ((finite != 0) & (np.abs(finite) < float(np.finfo(np.float16).tiny))).sum()
    flushed = ((finite != 0) & (half == 0)).sum()
    count = max(wide.size, 1)
    return absmax, finite.size == wide.size, subnormal / count, flushed / count


@given(st.lists(patterns, max_size=40), st.integers(1, 9))
def test_measures_are_those_of_the_definition(found: list[int], in_cache: int) -> None:
    values = np.array(found, np.uint32).view(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fp16_probe, "_IN_CACHE", in_cache)
        assert tuple(measure(values)) == by_definition(values)


def test_an_array_of_any_size_and_layout_is_measured_in_full() -> None:
    values = np.random.default_rng(0).standard_normal((3, 500, 400)).astype(np.float32)
    values[2, 499, 399] = -1e5
    values[:, ::3] *= 1e-8
    turned = values.transpose(2, 0, 1)
    before = turned.copy()
    assert tuple(measure(turned)) == by_definition(values)
    assert np.array_equal(turned, before)


@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_a_scalar_and_nothing_at_all_can_be_measured(shape: tuple[int, ...]) -> None:
    values = np.full(shape, 3.0, np.float32)
    assert tuple(measure(values)) == by_definition(values)
