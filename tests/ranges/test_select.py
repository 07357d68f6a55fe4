"""The range in force: the configured estimator's, or the one that `auto` chooses and says why."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.config import Estimator
from quantflow.graph.layer_settings import TensorSettings
from quantflow.ranges.auto import Trial
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.estimators import EstimatorSettings, candidates
from quantflow.ranges.grid import observe
from quantflow.ranges.select import select_range
from quantflow.ranges.views import Reader

SETTINGS = EstimatorSettings(symmetric=False, percentile=99.9)


def statistics() -> TensorStatistics:
    """Normal values and one wild one."""
    values = np.random.default_rng(0).normal(size=(400, 16)).astype(np.float32)
    values[7, 3] = 300
    low, high = values.min(1).astype(float), values.max(1).astype(float)
    return TensorStatistics(observe(values), low, high, (), {None: values[:64]})


@pytest.mark.parametrize("estimator", ["minmax", "percentile", "kl", "mse"])
def test_a_configured_estimator_is_in_force(estimator: Estimator) -> None:
    seen = statistics()
    settings = TensorSettings(estimator=estimator, symmetric=False, percentile=99.9)
    found = select_range(seen, list, settings)
    assert found.chosen == estimator and found.reason == ""
    assert found.candidates == candidates(seen.histogram, SETTINGS)
    entry = found.range_of("t", symmetric=False)
    assert (entry.low, entry.high) == found.candidates[estimator]
    assert entry.estimator == estimator and entry.tensor == "t"


def test_auto_names_what_it_chose() -> None:
    weight = np.random.default_rng(1).normal(size=(16, 8)).astype(np.float32)
    seen, settings = statistics(), TensorSettings("auto", symmetric=False, percentile=99.9)
    found = select_range(seen, lambda: [Trial(seen.rows[None], [Reader(weight[None])])], settings)
    assert found.chosen in found.candidates
    entry = found.range_of("t", symmetric=True)
    assert entry.estimator == found.chosen and entry.reason == found.reason and entry.symmetric


def test_auto_takes_no_range_whose_squared_error_over_all_values_is_above_that_of_minmax() -> None:
    # 30 values of 3000 that no sampled row holds: clipped to 30, each costs 2970^2, while a step of
    # 3000 / 255 costs at most a twelfth of its square in each of the 400 * 16 values.
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 16)).astype(np.float32)
    values[200:230, 3] = 3000
    assert values.size * (3010 / 255) ** 2 / 12 < 30 * 2900**2
    low, high = values.min(1).astype(float), values.max(1).astype(float)
    seen = TensorStatistics(observe(values), low, high, (), {None: values[:64]})
    weight = rng.normal(size=(16, 8)).astype(np.float32)
    settings = TensorSettings("auto", symmetric=False, percentile=99.0)
    found = select_range(seen, lambda: [Trial(seen.rows[None], [Reader(weight[None])])], settings)
    bounds = found.candidates[found.chosen]
    steps = (bounds.high - bounds.low) / 255
    quantized = np.clip(np.rint(values / steps) * steps, bounds.low, bounds.high)
    assert np.square(quantized - values).sum() < values.size * (3010 / 255) ** 2 / 12
