"""Errors carry a code, what, where and fix, and several travel together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import quantflow
from quantflow.error_codes import ERROR_CODES
from quantflow.errors import ExitCode, Problem, QuantflowError, did_you_mean, fail

SOURCES = Path(quantflow.__file__).parent


def test_every_code_that_the_source_raises_is_explained() -> None:
    used = {
        code
        for path in SOURCES.rglob("*.py")
        if path.name != "error_codes.py"
        for code in re.findall(r'"(QF\d{3})"', path.read_text())
    }
    assert used <= set(ERROR_CODES)


def test_every_code_has_a_title_and_an_explanation_that_ends_in_a_full_stop() -> None:
    for code, entry in ERROR_CODES.items():
        assert re.fullmatch(r"QF[1-7]\d\d", code)
        assert entry.title and not entry.title.endswith("."), code
        assert entry.explanation.endswith("."), code


def test_a_problem_shows_code_what_where_and_fix() -> None:
    problem = Problem("QF203", "it broke", where="model.factory", fix="mend it")
    assert str(problem) == "QF203 it broke\n  where: model.factory\n  fix: mend it"


def test_a_problem_without_place_or_fix_is_one_line() -> None:
    assert str(Problem("QF203", "it broke")) == "QF203 it broke"


def test_an_unknown_code_is_a_bug_at_once() -> None:
    with pytest.raises(ValueError, match="QF999"):
        Problem("QF999", "no such code")


def test_all_problems_are_in_the_message() -> None:
    error = QuantflowError([Problem("QF101", "one"), Problem("QF203", "two")])
    assert "QF101 one" in str(error) and "QF203 two" in str(error)
    assert [problem.what for problem in error.problems] == ["one", "two"]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("QF101", ExitCode.USAGE),
        ("QF203", ExitCode.USAGE),
        ("QF301", ExitCode.USAGE),
        ("QF402", ExitCode.USAGE),
        ("QF501", ExitCode.USAGE),
        ("QF601", ExitCode.ENVIRONMENT),
        ("QF701", ExitCode.ATC_FAILED),
    ],
)
def test_the_exit_status_follows_from_the_block_of_the_code(code: str, status: ExitCode) -> None:
    assert QuantflowError([Problem(code, "x")]).exit_code is status


def test_exit_statuses_are_the_documented_numbers() -> None:
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 4, 70]


def test_fail_raises_a_single_problem() -> None:
    with pytest.raises(QuantflowError) as caught:
        fail("QF301", "empty", where="a.csv", fix="fill it")
    assert caught.value.problems == (Problem("QF301", "empty", "a.csv", "fill it"),)


def test_near_names_are_offered_nearest_first() -> None:
    assert did_you_mean("persentile", ["minmax", "percentile"]) == "did you mean 'percentile'?"


def test_without_a_near_name_the_known_ones_are_listed() -> None:
    assert did_you_mean("zzz", ["beta", "alpha"]) == "known: alpha, beta"
    many = [f"name{i:02}" for i in range(20)]
    assert did_you_mean("zzz", many).endswith("name11, ...")
