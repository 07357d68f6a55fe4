"""Sentences where there is no cause to name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quantflow.artifacts.diagnosis_record import Cause, Experiment, Share
from quantflow.artifacts.sweep_record import Measure
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


def facts(*experiments: Experiment, within: bool) -> Facts:
    unused: Any = None
    probe: Any = SimpleNamespace(probe=range(32))
    return Facts(probe, unused, Diagnosed(COSINE, within, experiments), unused)


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
    said = sentence(facts(of(FP16, None, None), of(INT8, None, None, high), within=True))
    assert "within the budget on 32 evaluation samples, mean cosine 0.995" in said
    assert ("barely" in said) is barely


def test_no_more_than_all_of_the_loss_is_told() -> None:
    assert percent_text(Share(value=1.02, low=0.97, high=1.05)) == "100% (97 to 100)"
    assert percent_text(Share(value=0.5, low=float("nan"), high=float("nan"))) == "50%"
