"""What the precisions say about shipping the int8 model, each criterion by its budget."""

from __future__ import annotations

from math import exp, inf, log, log1p, nan

import pytest

from quantflow.artifacts.comparison import Fidelity, Precision
from quantflow.artifacts.sweep_record import Measure
from quantflow.evaluation.verdict import Found, judge, judge_twins
from quantflow.tasks.criteria import Criterion
from quantflow.tasks.metrics import METRICS, Metric, perplexity_metric


def close(int8: float = 0.995, qdq: float = 0.995) -> dict[str, Fidelity]:
    return {
        name: Fidelity(
            cosine_mean=mean, cosine_min=mean, cosine_low=mean, cosine_high=mean,
            max_abs_error=0.1, worst_samples=(),
        )
        for name, mean in {"int8": int8, "qdq": qdq}.items()
    }  # fmt: skip


def measures(**found: tuple[float, float]) -> Found:
    """Of value and damage."""
    measured: dict[Precision, Measure] = {}
    for name, (value, damage) in found.items():
        measured[name] = Measure(  # pyright: ignore[reportArgumentType]
            metric="", value=value, damage=damage, low=damage, high=damage, limit=None
        )
    return measured


def cosines(int8: float, fp16: float = 0.9999) -> Found:
    return measures(fp16=(fp16, 1 - fp16), int8=(int8, 1 - int8))


def cosine(least: float | None) -> Criterion:
    limit = None if least is None else 1 - least
    return Criterion("cosine", METRICS["cosine"], limit, f"budget.cosine_mean is {least}")


def test_all_is_well_at_the_budget_itself_and_without_one() -> None:
    assert judge(cosine(0.995), cosines(0.995)) == ("pass", [])
    assert judge(cosine(None), cosines(0.5)) == ("pass", [])


def test_int8_below_the_budget_fails_and_says_both_numbers_and_the_key() -> None:
    verdict, (reason,) = judge(cosine(0.995), cosines(0.9949))
    assert verdict == "fail"
    assert "0.994900" in reason and "budget.cosine_mean is 0.995" in reason


@pytest.mark.parametrize("broken", [nan, inf])
@pytest.mark.parametrize("least", [0.5, None])
def test_outputs_that_are_not_finite_fail(broken: float, least: float | None) -> None:
    verdict, (reason,) = judge(cosine(least), cosines(broken))
    assert verdict == "fail" and "outputs are not finite" in reason


@pytest.mark.parametrize("fp16", [0.9989, nan])
def test_fp16_that_loses_accuracy_itself_is_said(fp16: float) -> None:
    verdict, (reason,) = judge(cosine(None), cosines(0.995, fp16))
    assert verdict == "warn" and "fp16 itself" in reason and "0.999 or more" in reason


def test_a_deploy_file_that_differs_from_its_twin_is_said() -> None:
    assert judge_twins(close(int8=0.995, qdq=0.9959)) == ("pass", [])
    verdict, (reason,) = judge_twins(close(int8=0.995, qdq=0.9961))
    assert verdict == "warn" and "0.0011" in reason
    assert judge_twins(close(int8=nan))[0] == "pass"  # said of the outputs themselves


def test_a_failure_outweighs_a_warning_and_both_are_said() -> None:
    verdict, reasons = judge(cosine(0.99), cosines(0.9, fp16=0.9))
    assert verdict == "fail" and len(reasons) == 2


def rise(allowed: float | None) -> Criterion:
    key = f"budget.perplexity_rise_fraction is {allowed}"
    limit = None if allowed is None else log1p(allowed)
    return Criterion("perplexity", perplexity_metric("ids"), limit, key)


def perplexities(fp32: float, fp16: float, int8: float) -> Found:
    values = {"fp32": fp32, "fp16": fp16, "int8": int8}
    return measures(**{name: (x, log(x / fp32)) for name, x in values.items()})


def test_a_perplexity_may_rise_up_to_the_budget() -> None:
    assert judge(rise(0.1001), perplexities(16, 16.01, 17.6)) == ("pass", [])
    assert judge(rise(None), perplexities(16, 16.01, 99)) == ("pass", [])
    verdict, (reason,) = judge(rise(0.1), perplexities(16, 16.01, 17.7))
    assert verdict == "fail" and "10.6%" in reason
    assert "budget.perplexity_rise_fraction is 0.1" in reason


@pytest.mark.parametrize("broken", [nan, inf])
def test_perplexities_that_are_not_finite_are_no_pass(broken: float) -> None:
    verdict, (reason,) = judge(rise(None), perplexities(16, 16, broken))
    assert verdict == "fail" and "not finite" in reason
    assert judge(rise(0.1), perplexities(16, broken, 17))[0] == "warn"


def test_a_loss_beyond_all_numbers_is_said() -> None:
    found = measures(fp32=(16, 0), fp16=(16, 0), int8=(inf, 1e4))
    verdict, (reason,) = judge(rise(0.1), found)
    assert verdict == "fail" and "perplexity inf, in fp32 16" in reason


def test_a_rise_in_fp16_itself_is_said() -> None:
    assert judge(rise(0.1), perplexities(16, 16.07, 17))[0] == "pass"
    verdict, (reason,) = judge(rise(0.1), perplexities(16, 16.09, 17))
    assert verdict == "warn" and "fp16 itself" in reason and "a rise of 0.6%" in reason
    assert exp(log(16.09 / 16)) - 1 == pytest.approx(0.0056, abs=1e-4)


@pytest.mark.parametrize(
    ("fp16", "int8", "least", "verdict", "words"),
    [
        (1.0, 0.99, 0.98, "pass", ""),
        (1.0, 0.98, 0.98, "pass", ""),
        (1.0, 0.9799, 0.98, "fail", "97.99% of cases; budget.agreement_fraction is 0.98"),
        (0.97, 0.99, 0.98, "warn", "fp16 itself"),
        (0.97, 0.5, None, "pass", ""),
    ],
)
def test_agreement_is_held_against_its_budget(
    fp16: float, int8: float, least: float | None, verdict: str, words: str
) -> None:
    limit = None if least is None else 1 - least
    key = f"budget.agreement_fraction is {least}"
    criterion = Criterion("agreement", METRICS["agreement"], limit, key)
    found, reasons = judge(
        criterion, measures(fp32=(1, 0), fp16=(fp16, 1 - fp16), int8=(int8, 1 - int8))
    )
    assert found == verdict
    assert words in " ".join(reasons) and bool(reasons) == (verdict != "pass")


@pytest.mark.parametrize(
    ("fp16", "int8", "drop", "verdict", "words"),
    [
        (0.0, 0.5, 0.5, "pass", ""),
        (0.0, -0.5, 0.0, "pass", ""),
        (
            0.0,
            0.5,
            0.25,
            "fail",
            "mean edits 3.5, in fp32 3, worse by 0.5; budget.task_drop is 0.25",
        ),
        (0.75, 0.5, 0.5, "warn", "fp16 itself is far from fp32: mean edits 3.75"),
        (0.75, 0.5, None, "pass", ""),
        (0.0, nan, None, "fail", "not finite: mean edits nan, in fp32 3"),
    ],
)
def test_a_users_figure_is_held_against_its_budget(
    fp16: float, int8: float, drop: float | None, verdict: str, words: str
) -> None:
    figure = Metric(lambda judged: 0.0, higher_is_better=False, perfect=None)
    criterion = Criterion("function", figure, drop, f"budget.task_drop is {drop}")
    found, reasons = judge(
        criterion, measures(fp32=(3, 0), fp16=(3 + fp16, fp16), int8=(3 + int8, int8)), "edits"
    )
    assert found == verdict
    assert words in " ".join(reasons) and bool(reasons) == (verdict != "pass")
