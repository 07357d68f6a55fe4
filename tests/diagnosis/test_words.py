"""Sentences where there is no cause to name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quantflow.artifacts.diagnosis_record import Cause, Experiment, Share
from quantflow.artifacts.sweep_record import Measure
from quantflow.evaluation.asked import Missed
from quantflow.evaluation.diagnosis import Diagnosed
from quantflow.evaluation.diagnosis_facts import Facts
from quantflow.evaluation.diagnosis_words import percent_text, sentence
from quantflow.evaluation.experiments import FP16, INT8
from quantflow.tasks.criteria import Criterion
from quantflow.tasks.metrics import METRICS

COSINE = Criterion("cosine", METRICS["cosine"], 0.01, "budget.cosine_mean is 0.99")


def of(name: str, cause: Cause | None, share: float | None, high: float = 0.02) -> Experiment:
    measure = Measure(metric="cosine", value=0.995, damage=0.005, low=0.0, high=high, limit=0.01)
    removed = None if share is None else Share(value=share, low=share - 0.1, high=share + 0.1)
    return Experiment(name=name, cause=cause, measures=(measure,), removed=removed)


NONE = Share(value=0.0, low=0.0, high=0.0)


def facts(
    *experiments: Experiment,
    within: bool,
    explained: bool = True,
    missed: Missed | None = None,
    fp16: int = 0,
) -> Facts:
    """Of four layers, each a group, with 1, 2, 3 and 4 MACs; the first `fp16` are in fp16."""
    layers = [SimpleNamespace(name=f"l{i}", macs=i + 1) for i in range(4)]
    kinds = ["fp16"] * fp16 + ["int8"] * (4 - fp16)
    factors = [SimpleNamespace(layer=f"l{i}", precision=x) for i, x in enumerate(kinds)]
    record = SimpleNamespace(layers=layers)

    def factors_of(_: Any) -> Any:
        return factors

    trials: Any = SimpleNamespace(probe=range(32), record=record, factors=factors_of)
    plan = SimpleNamespace(groups=dict.fromkeys("abcd"), fp16_groups=["a", "b", "c", "d"][:fp16])
    setup: Any = SimpleNamespace(plan=plan)
    unused: Any = None
    found = Diagnosed(COSINE, within, experiments, NONE if explained else None)
    return Facts(trials, setup, found, unused, missed)


def test_a_loss_without_a_cause_is_told_with_what_comes_nearest() -> None:
    said = sentence(
        facts(
            of(FP16, None, None),
            of(INT8, None, None),
            of("weights in float", "weights", 0.3),
            of("activations in float", "activations", 0.45),
            of("worst 8 groups in fp16", "layers", 0.9),
            within=False,
        )
    )
    assert said.startswith("Spread: on 32 evaluation samples")
    assert said.endswith("the most is 45% (35 to 55), with activations in float.")


@pytest.mark.parametrize(("high", "barely"), [(0.009, False), (0.02, True)])
def test_within_the_budget_is_told_as_barely_where_the_interval_is_not(
    high: float, barely: bool
) -> None:
    experiments = (of(FP16, None, None), of(INT8, None, None, high))
    said = sentence(facts(*experiments, within=True, explained=False))
    assert "within the budget on 32 evaluation samples, mean cosine 0.995" in said
    assert ("barely" in said) is barely


def test_what_no_change_lowers_is_not_told_as_a_share() -> None:
    worse = of("weights in float", "weights", -15.12)
    said = sentence(facts(of(FP16, None, None), of(INT8, None, None), worse, within=False))
    assert said.endswith("surely removes half of the loss, nor does any lower it.")


@pytest.mark.parametrize(
    ("fp16", "told"),
    [(0, ""), (1, "1 of 4 groups is in fp16 by the plan, with 90.0% of MACs in INT8"),
     (3, "3 of 4 groups are in fp16 by the plan, with 40.0% of MACs in INT8")],
)  # fmt: skip
def test_what_the_plan_leaves_in_fp16_is_told_within_the_budget(fp16: int, told: str) -> None:
    references = (of(FP16, None, None), of(INT8, None, None))
    nothing = sentence(facts(*references, within=True, explained=False, fp16=fp16))
    anyway = sentence(facts(*references, within=True, fp16=fp16))
    assert anyway.startswith("Within the budget; spread: on 32 evaluation samples")
    for said in (nothing, anyway):
        assert told in said and ("by the plan" in said) is bool(told)
    assert "by the plan" not in sentence(facts(*references, within=False, fp16=fp16))


def test_what_the_comparison_misses_comes_before_the_cause() -> None:
    references = (of(FP16, None, None), of(INT8, None, None))
    missed = Missed(64, "spearman", "budget.task_drop is 0.01")
    said = sentence(facts(*references, within=True, missed=missed))
    assert said.startswith(
        "The comparison misses the budget in spearman (budget.task_drop is 0.01)"
    )
    assert "not measured here: the loss is told in cosine. Spread: on 32" in said
    on_more = sentence(facts(*references, within=True, missed=Missed(64)))
    assert on_more.startswith("Within the budget on 32 evaluation samples, where the comparison")
    assert "misses it on 64. Spread: " in on_more


def test_no_more_than_all_of_the_loss_is_told() -> None:
    assert percent_text(Share(value=1.02, low=0.97, high=1.05)) == "100% (97 to 100)"
    assert percent_text(Share(value=0.5, low=float("nan"), high=float("nan"))) == "50%"
