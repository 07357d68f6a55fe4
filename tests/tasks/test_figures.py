"""A model over a set: scores with their intervals, and damage over the same samples."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.tasks.criteria import Criterion
from quantflow.tasks.figures import Figures, measure
from quantflow.tasks.metrics import METRICS, Judged, Metric, perplexity_metric

GAIN = Criterion("function", Metric(lambda judged: float(judged.id), True, None), 0.5)
COST = Criterion("function", Metric(lambda judged: float(judged.id), False, None), 0.5)


def test_a_score_is_the_mean_with_an_interval_of_it() -> None:
    figures = Figures(GAIN.metric, 4)
    for index in (2, 0, 3, 1):
        figures.add(index, Judged(str(index * index), {}, {}, {}))
    assert figures.values.tolist() == [0, 1, 4, 9]
    score = figures.score(seed=1)
    assert score.value == 3.5
    draws = np.random.default_rng(1).integers(0, 4, (1000, 4))
    means = np.array([0, 1, 4, 9])[draws].mean(axis=1)
    assert (score.low, score.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))


def test_the_interval_of_decibels_is_the_right_way_round() -> None:
    figures = Figures(METRICS["sqnr"], 8)
    figures.values[:] = np.linspace(1e-4, 1e-2, 8)
    score = figures.score(seed=0)
    assert score.low < score.value < score.high


@pytest.mark.parametrize("criterion", [GAIN, COST])
def test_damage_is_that_of_the_same_samples_in_the_direction_of_worse(criterion: Criterion) -> None:
    rng = np.random.default_rng(0)
    of_float = 100 * rng.normal(size=50)  # samples differ far more than the models do
    worse = -1 if criterion.metric.higher_is_better else 1
    found = measure(criterion, of_float + worse * 0.25, of_float, seed=0)
    assert found.damage == pytest.approx(0.25)
    assert (found.low, found.high) == pytest.approx((0.25, 0.25))
    assert (found.metric, found.limit) == ("function", 0.5)
    assert found.meets and found.meets_surely


def test_a_drop_that_is_just_allowed_is_met() -> None:
    # One accuracy less another is 0.020000000000000018 in floats, one decision of 50 is 0.02.
    of_float = np.repeat([1.0, 0.0], [465, 35])
    values = np.repeat([1.0, 0.0], [455, 45])
    found = measure(Criterion("function", GAIN.metric, 0.02), values, of_float, seed=0)
    assert found.damage == 0.02 and found.meets and not found.meets_surely
    assert values.mean() == found.value


def test_damage_of_texts_is_weighted_with_their_tokens() -> None:
    criterion = Criterion("perplexity", perplexity_metric("ids"), 0.1)
    of_float, values = np.array([2.0, 3.0, 9.0]), np.array([2.5, 3.0, np.nan])
    weights = np.array([30.0, 10.0, 0.0])
    found = measure(criterion, values, of_float, weights, seed=0)
    assert found.damage == pytest.approx(0.5 * 30 / 40)
    assert found.value == pytest.approx(np.exp((2.5 * 30 + 3 * 10) / 40))
    assert 0 <= found.low < found.damage < found.high == pytest.approx(0.5)
    assert not found.meets


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_sample_that_is_not_finite_is_not_left_out(bad: float) -> None:
    values = np.array([1.0, bad, 1.0])
    found = measure(GAIN, values, np.ones(3), seed=0)
    assert not np.isfinite(found.damage)
    assert np.isnan(found.low) and np.isnan(found.high)
    figures = Figures(GAIN.metric, 3)
    figures.values[:] = values
    score = figures.score(seed=0)
    assert not np.isfinite(score.value) and np.isnan(score.low)
