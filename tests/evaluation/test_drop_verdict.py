"""The drop of a task's figure against the budget, by its interval."""

from __future__ import annotations

from math import nan

import pytest

from quantflow.artifacts.comparison import PairedScore, Precision, TaskScore
from quantflow.evaluation.drop_verdict import judge_drop
from quantflow.tasks.criteria import Limit

BUDGET = Limit("retrieval", 0.01, "budget.task_drop is 0.01")


def against(damage: float, low: float, high: float, model: Precision = "int8") -> PairedScore:
    return PairedScore(
        metric="retrieval", model=model, baseline="fp32", samples=500, damage=damage, low=low,
        high=high, asked_drop=0.01, samples_needed=12345, detectable_drop=0.05,
    )  # fmt: skip


def judged(
    int8: tuple[float, float, float], fp16: tuple[float, float, float] = (0, 0, 0),
    limit: Limit = BUDGET,
) -> tuple[str, list[str]]:  # fmt: skip
    values: dict[Precision, float] = {"fp32": 0.75, "fp16": 0.75 - fp16[0], "int8": 0.75 - int8[0]}
    scores = {name: TaskScore(value=x, low=x, high=x) for name, x in values.items()}
    pairs: dict[Precision, PairedScore] = {
        "fp16": against(*fp16, model="fp16"),
        "int8": against(*int8),
    }
    return judge_drop(limit, scores, pairs, "mrr")


def test_a_drop_that_is_surely_within_the_budget_passes() -> None:
    assert judged((0.002, -0.001, 0.01)) == ("pass", [])
    assert judged((-0.02, -0.03, -0.01)) == ("pass", [])
    assert judged((0.5, 0.4, 0.6), limit=Limit("retrieval")) == ("pass", [])


def test_a_drop_that_is_surely_beyond_it_fails_with_all_figures() -> None:
    verdict, (reason,) = judged((0.05, 0.02, 0.08))
    assert verdict == "fail"
    assert reason == (
        "int8 misses the budget: mrr 0.7, in fp32 0.75, worse by 0.05 "
        "(95% interval 0.02 to 0.08); budget.task_drop is 0.01"
    )


@pytest.mark.parametrize("damage", [0.002, 0.02])
def test_a_limit_inside_the_interval_is_said_and_does_not_fail(damage: float) -> None:
    verdict, (reason,) = judged((damage, -0.01, 0.04))
    assert verdict == "warn" and reason.startswith("too few samples to tell whether int8 meets")
    assert reason.endswith("is 0.01; a drop of 0.01 shows on about 12,345 samples")


@pytest.mark.parametrize("limit", [BUDGET, Limit("retrieval")])
def test_figures_that_are_not_finite_fail_whatever_is_asked(limit: Limit) -> None:
    verdict, reasons = judged((nan, nan, nan), limit=limit)
    assert verdict == "fail" and "not finite" in reasons[0] and len(reasons) == 1


def test_fp16_that_is_surely_beyond_the_budget_is_said() -> None:
    verdict, reasons = judged((0.05, 0.02, 0.08), (0.05, 0.02, 0.08))
    assert verdict == "fail" and reasons[0].startswith("fp16 itself is far from fp32: mrr 0.7")
    assert judged((0.0, 0.0, 0.0), (0.005, -0.01, 0.04)) == ("pass", [])
    assert judged((0.0, 0.0, 0.0), (nan, nan, nan))[0] == "warn"
