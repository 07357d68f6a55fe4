from __future__ import annotations

import pytest

from quantflow.artifacts.comparison import Fidelity, Precision, TaskScore
from quantflow.evaluation.verdict import judge, judge_agreement, judge_perplexity


def close(fp16: float = 0.9999, int8: float = 0.995, qdq: float = 0.995) -> dict[str, Fidelity]:
    return {
        name: Fidelity(
            cosine_mean=mean, cosine_min=mean, cosine_low=mean, cosine_high=mean,
            max_abs_error=0.1, worst_samples=(),
        )
        for name, mean in {"fp16": fp16, "int8": int8, "qdq": qdq}.items()
    }  # fmt: skip


def test_all_is_well_at_the_budget_itself() -> None:
    assert judge(close(int8=0.995), 0.995) == ("pass", [])


def test_int8_below_the_budget_fails_and_says_both_numbers() -> None:
    verdict, (reason,) = judge(close(int8=0.9949, qdq=0.9949), 0.995)
    assert verdict == "fail"
    assert "0.994900" in reason and "0.995" in reason


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_outputs_that_are_not_finite_fail(broken: float) -> None:
    verdict, reasons = judge(close(int8=broken), 0.5)
    assert verdict == "fail" and any("not finite" in reason for reason in reasons)


@pytest.mark.parametrize("fp16", [0.9989, float("nan")])
def test_fp16_that_loses_accuracy_itself_is_said(fp16: float) -> None:
    verdict, (reason,) = judge(close(fp16=fp16), 0.99)
    assert verdict == "warn" and "fp16 itself" in reason


def test_a_deploy_file_that_differs_from_its_twin_is_said() -> None:
    assert judge(close(int8=0.995, qdq=0.9959), 0.99)[0] == "pass"
    verdict, (reason,) = judge(close(int8=0.995, qdq=0.9961), 0.99)
    assert verdict == "warn" and "0.0011" in reason


def test_a_failure_outweighs_a_warning_and_both_are_said() -> None:
    verdict, reasons = judge(close(fp16=0.9, int8=0.9, qdq=0.9), 0.99)
    assert verdict == "fail" and len(reasons) == 2


def perplexities(fp32: float, fp16: float, int8: float) -> dict[Precision, TaskScore]:
    values: dict[Precision, float] = {"fp32": fp32, "fp16": fp16, "int8": int8}
    return {name: TaskScore(value=x, low=x, high=x) for name, x in values.items()}


def test_a_perplexity_may_rise_up_to_the_budget() -> None:
    assert judge_perplexity(perplexities(16, 16.01, 17.6), 0.1001) == ("pass", [])
    assert judge_perplexity(perplexities(16, 16.01, 99), None) == ("pass", [])
    verdict, (reason,) = judge_perplexity(perplexities(16, 16.01, 17.7), 0.1)
    assert verdict == "fail" and "10.6%" in reason and "perplexity_rise_fraction" in reason


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_perplexities_that_are_not_finite_are_no_pass(broken: float) -> None:
    verdict, (reason,) = judge_perplexity(perplexities(16, 16, broken), None)
    assert verdict == "fail" and "not finite" in reason
    assert judge_perplexity(perplexities(16, broken, 17), 0.1)[0] == "warn"


def test_a_rise_in_fp16_itself_is_said() -> None:
    assert judge_perplexity(perplexities(16, 16.07, 17), 0.1)[0] == "pass"
    verdict, (reason,) = judge_perplexity(perplexities(16, 16.09, 17), 0.1)
    assert verdict == "warn" and "fp16 itself" in reason


@pytest.mark.parametrize(
    ("fp16", "int8", "least", "verdict", "words"),
    [
        (1.0, 0.99, 0.98, "pass", ""),
        (1.0, 0.98, 0.98, "pass", ""),
        (1.0, 0.9799, 0.98, "fail", "97.99%"),
        (0.97, 0.99, 0.98, "warn", "fp16 itself"),
        (0.97, 0.5, None, "pass", ""),
    ],
)
def test_agreement_is_held_against_its_budget(
    fp16: float, int8: float, least: float | None, verdict: str, words: str
) -> None:
    scores: dict[Precision, TaskScore] = {
        name: TaskScore(value=value, low=value, high=value)
        for name, value in {"fp32": 1.0, "fp16": fp16, "int8": int8}.items()
    }  # pyright: ignore[reportAssignmentType]
    found, reasons = judge_agreement(scores, least)
    assert found == verdict
    assert words in " ".join(reasons) and bool(reasons) == (verdict != "pass")
