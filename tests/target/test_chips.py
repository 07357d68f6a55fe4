"""Chips: the listed ones pass, others are refused with the nearest name."""

from __future__ import annotations

import pytest

from quantflow.errors import QuantflowError
from quantflow.target.chips import check_chip


@pytest.mark.parametrize(
    "name", ["Ascend310P3", "Ascend910B4-1", "Ascend910_9391", "Ascend950PR_9589", "Ascend035"]
)
def test_chips_of_the_manual_pass(name: str) -> None:
    assert check_chip(name) == name


@pytest.mark.parametrize(
    ("name", "near"), [("310P3", "Ascend310P3"), ("Ascend310P4", "Ascend310P"), ("", "Ascend")]
)
def test_other_names_are_refused_with_near_ones(name: str, near: str) -> None:
    with pytest.raises(QuantflowError) as error:
        check_chip(name)
    assert error.value.problems[0].code == "QF110"
    assert near in error.value.problems[0].fix


@pytest.mark.parametrize("name", ["Ascend950PR_", "Ascend310P3 --model=x", "Ascend950PR_1;rm"])
def test_nothing_else_slips_into_the_command_line(name: str) -> None:
    with pytest.raises(QuantflowError):
        check_chip(name)
