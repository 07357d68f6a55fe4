"""A small profile with everything in it."""

from __future__ import annotations

import numpy as np

from quantflow.calibration.profile.profile import Profile, make_profile
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.grid import observe

from .drift_tables import table


def some_profile(count: int = 90, features: int = 3, seed: int = 0) -> Profile:
    """A profile with everything in it, the last feature and the tensor of a model."""
    rng = np.random.default_rng(seed)
    kinds = np.eye(2, dtype=np.int64)[rng.integers(0, 2, count)]
    rows = table(
        rng.standard_normal((count, features)),
        counts={"tokens": rng.integers(0, 9, (count, 5))},
        categories={"script": kinds},
    )
    values = rng.standard_normal((count, 7)).astype(np.float32)
    seen = TensorStatistics(
        histogram=observe(values),
        sample_low=values.min(axis=1).astype(np.float64),
        sample_high=values.max(axis=1).astype(np.float64),
        nonfinite_samples=(),
        rows={},
    )
    return make_profile(rows, features - 1, model="m", source="s", tensors={"x/y": seen})
