"""What samples say of a plan, and how far it is from the budget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quantflow.artifacts.sweep_record import Measure
from quantflow.sensitivity.measures import measures_of, shortfall
from quantflow.tasks.criteria import Criterion
from quantflow.tasks.metrics import METRICS, perplexity_metric

CRITERIA = {
    "perplexity": Criterion("perplexity", perplexity_metric("ids"), 0.1, "k"),
    "cosine": Criterion("cosine", METRICS["cosine"]),
    "agreement": Criterion("agreement", METRICS["agreement"], 0.02, "k"),
}


def found(values: dict[str, list[float]], of_float: dict[str, list[float]], **weights: list[float]):
    probe: Any = SimpleNamespace(
        of_float={name: np.array(x) for name, x in of_float.items()},
        weights={name: np.array(weights.get(name, np.ones(len(x)))) for name, x in values.items()},
    )
    arrays = {name: np.array(x) for name, x in values.items()}
    return measures_of(CRITERIA, arrays, probe, seed=0)


def test_values_damages_and_limits_are_those_of_the_samples() -> None:
    losses, of_float = [2.0, 3.0, 2.5], [1.9, 3.1, 2.0]
    perplexity, cosine = found(
        {"cosine": [0.9, 1.0, 0.8], "perplexity": losses},
        {"cosine": [1.0, 1.0, 1.0], "perplexity": of_float},
    )
    assert (perplexity.metric, cosine.metric) == ("perplexity", "cosine")
    assert perplexity.value == pytest.approx(np.exp(2.5))
    assert perplexity.damage == pytest.approx(0.5 / 3) and perplexity.limit == 0.1
    assert cosine.value == pytest.approx(0.9) and cosine.damage == pytest.approx(0.1)
    assert cosine.limit is None and cosine.meets
    for measure in (perplexity, cosine):
        assert measure.low <= measure.damage <= measure.high


def test_samples_count_by_their_weights_and_those_without_any_not_at_all() -> None:
    (measure,) = found(
        {"perplexity": [2.0, 3.0, float("nan")]},
        {"perplexity": [1.0, 2.5, float("nan")]},
        perplexity=[3.0, 1.0, 0.0],
    )
    assert measure.damage == pytest.approx((3 * 1.0 + 0.5) / 4)
    assert measure.value == pytest.approx(np.exp((3 * 2.0 + 3.0) / 4))
    assert np.isfinite([measure.low, measure.high]).all()


def test_one_broken_sample_leaves_no_number() -> None:
    (measure,) = found({"agreement": [1.0, np.nan]}, {"agreement": [1.0, 1.0]})
    assert np.isnan([measure.value, measure.damage, measure.low, measure.high]).all()
    assert not measure.meets and not measure.meets_surely


def measure(damage: float, limit: float | None) -> Measure:
    return Measure(metric="m", value=0, damage=damage, low=damage, high=damage, limit=limit)


def test_the_shortfall_is_how_many_times_the_allowed_damage_there_is() -> None:
    assert shortfall([measure(0.03, 0.02), measure(0.01, 0.02)]) == pytest.approx(1.5)
    assert shortfall([measure(0.02, 0.02)]) == 1
    assert shortfall([measure(-1.0, 0.02)]) == 0
    assert shortfall([measure(99.0, None)]) == 0 == shortfall([])
    assert shortfall([measure(float("nan"), 0.02), measure(0.0, 0.02)]) == np.inf
    assert shortfall([measure(1e-12, 0.0)]) == np.inf and shortfall([measure(0.0, 0.0)]) == 0
