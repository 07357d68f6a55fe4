"""Candidates for scales, against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from quantflow.recovery.scales import BOUNDS, MOST, STRENGTHS, candidate_scales

NUMBERS = st.floats(0, 2.0**60, width=32) | st.floats(0, 2.0**-60, width=32) | st.just(0.0)
COUNT = 12


def magnitudes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(np.exp(rng.normal(size=COUNT)).astype(np.float32) for _ in range(2))  # type: ignore[return-value]


@settings(max_examples=60)
@given(
    arrays(np.float32, COUNT, elements=NUMBERS),
    arrays(np.float32, COUNT, elements=NUMBERS),
    arrays(np.int64, COUNT, elements=st.integers(0, 4)),
)
def test_scales_are_positive_equal_in_a_class_and_1_where_nothing_is(
    a: np.ndarray, w: np.ndarray, classes: np.ndarray
) -> None:
    classes = np.unique(classes, return_inverse=True)[1]
    dead = [c for c in range(classes.max() + 1) if not (a[classes == c].any() and
                                                       w[classes == c].any())]  # fmt: skip
    found = dict(candidate_scales(a, w, classes))
    assert len(found) == (0 if len(dead) == classes.max() + 1 else len(STRENGTHS) + len(BOUNDS))
    for scale in found.values():
        assert scale.shape == (COUNT,) and scale.dtype == np.float32
        assert np.isfinite(scale).all() and (scale > 0).all()
        for c in range(classes.max() + 1):
            assert len(set(scale[classes == c].tolist())) == 1
            if c in dead:
                assert (scale[classes == c] == 1).all()
        assert scale.max() <= MOST * (1 + 1e-6) and scale.min() >= (1 - 1e-6) / MOST


@pytest.mark.parametrize("t", STRENGTHS)
def test_a_strength_is_a_ratio_of_powers(t: float) -> None:
    a, w = magnitudes(0)
    found = dict(candidate_scales(a, w, np.arange(COUNT)))[f"strength {t:g}"]
    expected = a.astype(np.float64) ** t / w.astype(np.float64) ** (1 - t)
    expected /= np.prod(expected) ** (1 / COUNT)
    assert np.allclose(found, expected, rtol=1e-5)
    assert np.prod(found.astype(np.float64)) == pytest.approx(1, rel=1e-4)


def test_strength_1_brings_all_activations_to_one_magnitude() -> None:
    a, w = magnitudes(1)
    found = dict(candidate_scales(a, w, np.arange(COUNT)))["strength 1"]
    assert np.ptp(a / found) < 1e-5 * (a / found).max()


@pytest.mark.parametrize("q", BOUNDS)
def test_a_bound_touches_none_but_what_is_above_it(q: float) -> None:
    a, w = magnitudes(2)
    bound = np.quantile(a.astype(np.float64), q)
    found = dict(candidate_scales(a, w, np.arange(COUNT)))[f"bound at {q:g}"]
    assert (found[a <= bound] == 1).all()
    assert np.allclose((a / found)[a > bound], bound, rtol=1e-5) and (a > bound).any()


def test_a_class_is_as_large_as_its_largest_channel() -> None:
    a, w = magnitudes(3)
    classes = np.arange(COUNT) // 3
    largest = [np.repeat(x.reshape(-1, 3).max(axis=1), 3) for x in (a, w)]
    of_class = dict(candidate_scales(a, w, classes))
    of_largest = dict(candidate_scales(*largest, np.arange(COUNT)))
    for name, scale in of_class.items():
        assert np.allclose(scale, of_largest[name], rtol=1e-6)
