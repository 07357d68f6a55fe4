"""What stands in the way is named: fp16, weights, activations by data or ranges, or limits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from quantflow.artifacts.record import Verdict
from quantflow.artifacts.sweep_record import CurvePoint, Measure, PolicyResult, Side, SideResult
from quantflow.sensitivity.obstacles import missed, obstacles
from quantflow.sensitivity.search import Limits
from quantflow.tasks.criteria import Criterion
from quantflow.tasks.metrics import METRICS, perplexity_metric

COSINE = Criterion("cosine", METRICS["cosine"], 0.01, "budget.cosine_mean is 0.99")
PERPLEXITY = Criterion(
    "perplexity", perplexity_metric("ids"), float(np.log1p(0.06)),
    "budget.perplexity_rise_fraction is 0.06",
)  # fmt: skip
AGREEMENT = Criterion("agreement", METRICS["agreement"], 0.02, "budget.agreement_fraction is 0.98")
CRITERIA = {x.name: x for x in (COSINE, PERPLEXITY, AGREEMENT)}


def measure(damage: float, criterion: Criterion = COSINE, value: float | None = None) -> Measure:
    return Measure(
        metric=criterion.name, value=1 - damage if value is None else value, damage=damage,
        low=damage, high=damage, limit=criterion.limit,
    )  # fmt: skip


def result(*measures: Measure) -> PolicyResult:
    return PolicyResult(
        policy="auto", fp16_groups=7, int8_mac_fraction=0.4321, boundaries=0, cost=1.0,
        measures=measures, cosine_min=0.0, meets_budget=False,
    )  # fmt: skip


def sides(**damages: float) -> list[SideResult]:
    order: Sequence[Side] = ("fp16", "weights", "activations", "int8")
    return [SideResult(side=x, measures=(measure(damages.get(x, 0.0)),)) for x in order]


def reasons(
    *, coverage: Verdict = "pass", limits: Limits | None = None, beyond: CurvePoint | None = None,
    best: PolicyResult | None = None, **damages: float,
) -> tuple[str, ...]:  # fmt: skip
    return obstacles(
        best or result(measure(0.02)), sides(int8=0.02, **damages), CRITERIA,
        limits or Limits(), beyond, coverage,
    )  # fmt: skip


def test_the_first_sentence_says_what_the_best_plan_is_and_what_it_lacks() -> None:
    (only,) = reasons()
    assert "no plan meets the budget" in only and "7 groups in fp16" in only
    assert "43.2% of MACs" in only and "0.980000" in only and COSINE.key in only


def test_every_measure_beyond_its_limit_is_told_in_its_own_unit() -> None:
    best = result(
        measure(float(np.log(1.5)), PERPLEXITY, value=24.2), measure(0.02), measure(0.01, AGREEMENT)
    )
    (only,) = reasons(best=best)
    assert "perplexity 24.2, a rise of 50.0%" in only and PERPLEXITY.key in only
    assert "cosine 0.980000" in only and "agreement" not in only
    assert missed(best.measures[2:], CRITERIA) == ""


def test_nan_is_beyond_every_limit() -> None:
    assert "nan" in missed([measure(float("nan"))], CRITERIA)


@pytest.mark.parametrize("coverage", ["pass", "warn", "fail"])
def test_activations_are_put_down_to_ranges_or_to_data(coverage: Verdict) -> None:
    first, second = reasons(activations=0.03, coverage=coverage)
    assert "activations alone" in second and "0.970000" in second
    assert ("show ranges" in second) == (coverage == "pass")
    assert ("show coverage" in second) == (coverage != "pass")
    assert "no plan" in first


def test_weights_and_fp16_are_named_where_they_alone_miss_the_budget() -> None:
    (_, second) = reasons(weights=0.03)
    assert "weights alone" in second and "show scores" in second
    (_, second) = reasons(fp16=0.05)
    assert second.startswith("fp16 itself") and "0.950000" in second and "show fp16" in second


def test_all_that_miss_the_budget_are_named_the_plainest_first() -> None:
    found = reasons(fp16=0.05, weights=0.03, activations=0.04)
    starts = ("no plan", "fp16 itself", "rounding the weights", "quantizing the activations")
    assert len(found) == len(starts)
    assert all(x.startswith(start) for x, start in zip(found, starts, strict=True))


def test_a_side_within_its_limit_is_not_named() -> None:
    assert len(reasons(fp16=0.01, weights=0.0099, activations=-0.1)) == 1


def test_limits_are_named_with_what_the_accuracy_takes() -> None:
    point = CurvePoint(
        fp16_groups=("a", "b", "c"), int8_mac_fraction=0.25, cost=0.9,
        measures=(measure(0.005),), step="curve",
    )  # fmt: skip
    _, second = reasons(limits=Limits(0.5, 2), beyond=point)
    assert "budget.int8_mac_fraction = 0.5 and budget.fp16_groups = 2" in second
    assert "3 groups in fp16, 25.0% of MACs" in second
    _, second = reasons(limits=Limits(fp16_groups=0), beyond=point)
    assert "budget.fp16_groups = 0" in second and "fraction" not in second
    assert len(reasons(limits=Limits(0.5, 2))) == 1


def test_a_plan_that_is_accurate_enough_goes_beyond_the_limits() -> None:
    (only,) = reasons(best=result(measure(0.001)), limits=Limits(0.9))
    assert "goes beyond the limits" in only
