"""Values whose ranges are hard to choose, shared by the tests of the estimators."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def adversarial() -> dict[str, NDArray[np.float32]]:
    """Named samples, float32."""
    rng = np.random.default_rng(5)
    normal = rng.standard_normal(20_000)
    bulk = rng.normal(0, 0.3, 20_000)
    bulk[:40] = rng.uniform(-1000, 1000, 40)
    largest = float(np.finfo(np.float32).max)
    found = {
        "one value": np.full(1, 3.7),
        "one bin": np.full(1000, -0.3),
        "all zero": np.zeros(1000),
        "two spikes": np.repeat([1.0, 100.0], [9000, 1000]),
        "signed spikes": np.repeat([-2.0, 0.5], [500, 500]),
        "one-sided": np.abs(normal),
        "negative only": -np.abs(normal) - 1,
        "away from zero": rng.uniform(5, 6, 10_000),
        "heavy tail": bulk,
        "zero spike": np.concatenate([np.zeros(500_000), np.abs(normal)]),
        "denormals": normal * 1e-41,
        "smallest": np.array([1e-45, -1e-45, 3e-45]),
        "near the largest float32": rng.uniform(-1, 1, 10_000) * largest,
        "largest and tiny": np.array([largest, -largest, 1e-40, 1.0]),
        "outlier": np.append(normal, 60.0),
        "asymmetric": np.concatenate([normal * 0.1 - 0.1, np.abs(normal) * 5]),
    }
    return {name: values.astype(np.float32) for name, values in found.items()}
