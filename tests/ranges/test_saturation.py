"""Saturation of the ranges in force, counted value by value."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.artifacts.ranges_record import TensorRange
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.grid import observe
from quantflow.ranges.saturation import saturation_rows


def _statistics(values: np.ndarray) -> TensorStatistics:
    low, high = values.min(1).astype(np.float64), values.max(1).astype(np.float64)
    return TensorStatistics(observe(values), low, high, (), {})


def test_shares_beyond_and_near_the_range_in_force_are_counted() -> None:
    rng = np.random.default_rng(0)
    calibrated = rng.normal(size=(20, 500)).astype(np.float32)
    values = (rng.normal(size=(30, 500)) * 1.5).astype(np.float32)
    ranges = [
        TensorRange(tensor="t", low=-2.55, high=2.54, estimator="kl", symmetric=True),
        TensorRange(tensor="u", low=-100, high=100, estimator="minmax", symmetric=True),
    ]
    seen = {name: observe(calibrated) for name in "tu"}
    deployed = {name: _statistics(values) for name in "tu"}
    clipped, inside = saturation_rows(ranges, {"t": "g", "u": "h"}, seen, deployed)
    step = 2.55 / 127  # symmetric: 127 steps on each side; half of one is rounding
    edge = 2.55 + step / 2
    assert clipped.clipped_low_fraction == pytest.approx((values < -edge).mean(), abs=0.004)
    assert clipped.clipped_high_fraction == pytest.approx((values > edge).mean(), abs=0.004)
    near = ((np.abs(values) > 0.9 * 2.55) & (np.abs(values) < edge)).mean()
    assert clipped.near_threshold_fraction == pytest.approx(near, abs=0.006)
    assert clipped.clipping_ratio == pytest.approx(np.abs(values).max() / 2.55, rel=0.01)
    assert (clipped.tensor, clipped.group, clipped.chosen) == ("t", "g", True)
    assert "clipped" in clipped.flag and clipped.worst_samples == ()
    assert inside.clipped_low_fraction == inside.clipped_high_fraction == 0
    assert inside.near_threshold_fraction == 0
    # Deployment leaves what calibration saw, though not the range in force.
    assert "beyond" in inside.flag
