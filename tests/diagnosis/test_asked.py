"""What of a failed comparison there is to explain."""

from __future__ import annotations

import math

import pytest

from quantflow.artifacts.comparison import Comparison, PairedScore, Precision
from quantflow.evaluation.asked import Asked, Missed, missed_by
from quantflow.tasks.criteria import Limit
from tests.report.sample_run import comparison

LIMIT = Limit("similarity", 0.01, "budget.task_drop is 0.01")


def failed(low: float) -> Comparison:
    """A comparison whose figure falls by `low` or more."""
    found: dict[Precision, float] = {"fp16": 0.5, "int8": low}
    pairs = [
        PairedScore(
            metric="similarity", model=model, baseline="fp32", samples=3,
            damage=value, low=value, high=value, detectable_drop=math.nan,
        )
        for model, value in found.items()
    ]  # fmt: skip
    return comparison("fail", ("why",)).model_copy(update={"paired": tuple(pairs)})


@pytest.mark.parametrize(("low", "own"), [(0.02, True), (math.nan, True), (0.01, False)])
def test_the_figure_of_the_task_is_named_where_it_is_beyond_its_limit(
    low: float, own: bool
) -> None:
    other = Missed(samples=3)
    named = Missed(3, "spearman", "budget.task_drop is 0.01")
    assert missed_by(failed(low), LIMIT) == (named if own else other)


def test_without_a_limit_the_budget_is_missed_by_what_is_measured() -> None:
    for limit in (None, Limit("similarity")):
        assert missed_by(failed(0.02), limit) == Missed(samples=3)


@pytest.mark.parametrize("verdict", ["pass", "warn"])
def test_only_a_failed_gate_is_to_be_explained(verdict: str) -> None:
    assert missed_by(comparison(verdict), LIMIT) is None


def test_what_there_is_to_explain_within_the_budget() -> None:
    assert not Asked(32).explains
    assert Asked(32, anyway=True).explains and Asked(32, missed=Missed(3)).explains
