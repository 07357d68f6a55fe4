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
