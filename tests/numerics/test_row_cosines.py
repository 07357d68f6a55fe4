"""Cosines of rows against the definition, and against those of one row at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from quantflow.numerics.row_cosines import row_cosines

ANY = st.one_of(st.floats(-1e6, 1e6, width=32), st.sampled_from([0.0, np.nan, np.inf, -np.inf]))
PAIRS = hnp.arrays(
    np.float64, st.tuples(st.just(2), st.integers(1, 5), st.integers(1, 6)), elements=ANY
)


@given(PAIRS)
def test_each_row_is_that_of_numpy_over_what_is_finite_in_both(pair: np.ndarray) -> None:
    cosines, apart = row_cosines(*pair)
    for i, (a, b) in enumerate(zip(*pair, strict=True)):
        both = np.isfinite(a) & np.isfinite(b)
        same = (a == b) & np.isinf(a)
        assert apart[i] == (~both & ~same).sum()
        x, y = a[both], b[both]
        norms = np.linalg.norm(x) * np.linalg.norm(y)
        if not both.any():
            assert cosines[i] == -1.0
        elif norms:
            assert cosines[i] == pytest.approx(x @ y / norms, abs=1e-9)
        else:
            assert cosines[i] == (1.0 if not x.any() and not y.any() else 0.0)


@pytest.mark.parametrize("size", [1e200, 1e-200, 5e-324, 1.7e308])
def test_rows_of_any_magnitude(size: float) -> None:
    x, y = np.array([[size, 0, size]] * 2), np.array([[size, size, 0], [-size, 0, -size]])
    np.testing.assert_allclose(row_cosines(x, y)[0], [0.5, -1.0])
