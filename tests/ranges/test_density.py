"""Shares and moments of the density agree with the values it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.ranges.density import density, mass_below, mean_square
from quantflow.ranges.grid import empty, observe

from .shapes import adversarial


@pytest.mark.parametrize("name", adversarial())
def test_mass_below_a_point_is_within_the_bin_that_holds_it(name: str) -> None:
    values = adversarial()[name].astype(np.float64)
    d = density(observe(values.astype(np.float32)))
    reach = np.abs(values).max()
    points = np.linspace(-1.1 * reach, 1.1 * reach, 101)
    found = mass_below(d, points)
    slack = np.abs(points) / 100 + 2.0**-133
    assert (found >= (values[None] < (points - slack)[:, None]).sum(axis=1)).all()
    assert (found <= (values[None] <= (points + slack)[:, None]).sum(axis=1)).all()


def test_no_values_have_no_mass() -> None:
    d = density(empty())
    assert (mass_below(d, np.array([-1.0, 1.0])) == 0).all()
    assert mean_square(d) == 0


def test_leaving_zero_out_leaves_only_the_other_values() -> None:
    d = density(observe(np.float32([0, 0, -0.0, 1, 2])), zero=False)
    assert d.total == 2


@pytest.mark.parametrize("name", ["one-sided", "heavy tail", "asymmetric", "one bin"])
def test_mean_square_is_within_one_percent(name: str) -> None:
    values = adversarial()[name]
    expected = np.square(values.astype(np.float64)).mean()
    assert mean_square(density(observe(values))) == pytest.approx(expected, rel=0.01)


def test_equal_values_are_below_a_point_only_when_they_are_less() -> None:
    d = density(observe(np.full(5, 0.3, np.float32)))
    value = float(np.float32(0.3))
    points = np.array([np.nextafter(value, 0), value, np.nextafter(value, 1)])
    assert list(mass_below(d, points)) == [0, 0, 5]
