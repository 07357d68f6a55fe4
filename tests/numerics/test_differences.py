"""Sums over two tensors against numpy on the whole of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from quantflow.numerics.differences import Differences, differences

FINITE = st.floats(-1e6, 1e6, width=32)
ANY = st.one_of(FINITE, st.sampled_from([np.nan, np.inf, -np.inf]))
PAIRS = hnp.arrays(np.float32, st.tuples(st.just(2), st.integers(1, 40)), elements=ANY)


@given(PAIRS)
def test_figures_are_those_of_numpy_over_what_is_finite_in_both(pair: np.ndarray) -> None:
    a, b = pair.astype(np.float64)
    found = differences(*pair)
    both = np.isfinite(a) & np.isfinite(b)
    x, y = a[both], b[both]
    assert found.elements == both.sum()
    assert found.nonfinite_reference == (~np.isfinite(a)).sum()
    assert found.nonfinite_other == (~np.isfinite(b)).sum()
    same = (a == b) & np.isinf(a)
    assert found.nonfinite_apart == (~both & ~same).sum()
    assert found.largest == np.abs(x - y).max(initial=0)
    assert found.absmax == np.abs(x).max(initial=0)
    if both.any():
        assert found.mean_abs_error == pytest.approx(np.abs(x - y).mean())
    if both.any() and np.linalg.norm(x) and np.linalg.norm(y):
        expected = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
        assert found.cosine == pytest.approx(expected, abs=1e-9)
        error = np.linalg.norm(x - y) / np.linalg.norm(x)
        assert found.relative_error == pytest.approx(error, rel=1e-6, abs=1e-12)


@given(PAIRS, st.integers(0, 40))
def test_parts_add_up_to_the_whole(pair: np.ndarray, cut: int) -> None:
    whole = differences(*pair)
    parts = differences(*pair[:, :cut]).plus(differences(*pair[:, cut:]))
    for name in Differences.__slots__:
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-9, abs=1e-30)


@given(hnp.arrays(np.float32, st.integers(1, 200), elements=FINITE))
def test_a_tensor_and_itself_have_cosine_1_to_the_last_bit(array: np.ndarray) -> None:
    found = differences(array, array.copy())
    assert (found.cosine, found.relative_error, found.largest) == (1.0, 0.0, 0.0)


def test_zero_vectors_and_errors_on_zero() -> None:
    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
    assert differences(zero, zero).cosine == 1.0
    assert differences(zero, one).cosine == 0.0 and differences(one, zero).cosine == 0.0
    assert differences(zero, one).relative_error == np.inf
    assert differences(one, zero).relative_error == 1.0
    assert np.isnan(differences(one * np.nan, one).cosine)
    assert differences(one * np.inf, one * np.inf).nonfinite_apart == 0
    assert differences(one * np.inf, -one * np.inf).nonfinite_apart == 3


@pytest.mark.parametrize("size", [1e200, 1e-200, 1e308, 5e-324, 1e150, 1e-150, 1e90, 1e-90])
@pytest.mark.parametrize("before", [0, 3])
def test_values_whose_squares_are_beyond_float64(size: float, before: int) -> None:
    zeros = np.zeros(before)
    x, y = np.array([size, 0, size]), np.array([size, size, 0])
    found = differences(zeros, zeros).plus(differences(x, y))
    assert found.cosine == pytest.approx(0.5) and found.relative_error == pytest.approx(1.0)
    assert (found.largest, found.absmax) == (size, size)
    opposite = differences(x, -x)
    assert opposite.cosine == -1.0 and opposite.relative_error == pytest.approx(2.0)
    same = differences(x, x.copy())
    assert (same.cosine, same.relative_error, same.mean_abs_error) == (1.0, 0.0, 0.0)
    mean = differences(np.full(4, size), np.zeros(4)).mean_abs_error
    assert mean == pytest.approx(size, rel=1e-12)


@pytest.mark.parametrize("sizes", [(1e200, 1.0), (1.0, 1e-200), (1e200, 1e-200), (1e-300, 1e300)])
def test_parts_of_any_magnitude_add_up(sizes: tuple[float, float]) -> None:
    # Next to the larger part the smaller one counts for nothing.
    a, b = (differences(np.array([s, s]), np.array([s, 0.0])) for s in sizes)
    for found in (a.plus(b), b.plus(a)):
        assert found.cosine == pytest.approx(np.sqrt(0.5))
        assert found.relative_error == pytest.approx(np.sqrt(0.5))
        assert found.mean_abs_error == pytest.approx(max(sizes) / 4)
