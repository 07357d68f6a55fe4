"""Rounding is told from another result by its size."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.evaluation.same_outputs import differences, finite

RNG = np.random.default_rng(0)
VALUES = RNG.standard_normal((5, 7)).astype(np.float32)


def compare(a: np.ndarray, b: np.ndarray, *, half: bool = False) -> list[str]:
    return differences([{"y": VALUES}, {"y": a}], [{"y": VALUES}, {"y": b}], half=half)


@pytest.mark.parametrize(("factor", "half", "same"), [
    (1 + 1e-4, False, True), (1.005, False, True), (1.03, False, False),
    (1.03, True, True), (1.2, True, False),
])  # fmt: skip
def test_an_error_is_measured_against_the_norm(factor: float, half: bool, same: bool) -> None:
    found = differences([{"y": VALUES}], [{"y": VALUES * np.float32(factor)}], half=half)
    assert (not found) == same
    if found:
        assert "'y'" in found[0] and f"{factor - 1:.2g}" in found[0]


def test_samples_and_outputs_are_judged_together_and_each() -> None:
    assert compare(VALUES, -VALUES)
    assert differences([{"x": VALUES, "y": VALUES}], [{"x": VALUES, "y": -VALUES}]) == [
        "output 'y' differs by 2 of its norm"
    ]


def test_zeros_may_be_zero_but_for_rounding() -> None:
    zeros = np.zeros_like(VALUES)
    assert not differences([{"y": zeros}], [{"y": zeros + np.float32(1e-8)}])
    assert differences([{"y": zeros}], [{"y": zeros + np.float32(1e-3)}])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_counts_nowhere_but_must_not_appear(value: float) -> None:
    spoilt = VALUES.copy()
    spoilt[2] = value
    assert not compare(spoilt, VALUES) and not compare(spoilt, spoilt)
    assert compare(VALUES, spoilt)
    assert finite([{"y": spoilt}]) and not finite([{"y": np.full(3, value)}])


def test_shapes_must_be_the_same() -> None:
    assert compare(VALUES, VALUES.T) == ["output 'y' has the shape (7, 5), not (5, 7)"]


def test_most_integers_must_be_the_same() -> None:
    integers = np.arange(10)
    few, many = integers.copy(), integers.copy()
    few[:2], many[:6] = -1, -1
    assert not differences([{"y": integers}], [{"y": few}])
    assert differences([{"y": integers}], [{"y": many}]) == ["60% of output 'y' are other integers"]
