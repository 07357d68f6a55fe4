"""Features of inputs that hold measurements: pixels, sound, any floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def value_features(array: NDArray[Any], name: str) -> dict[str, float]:
    """Moments, extremes and quantiles of a sample's values, in the input's own units.

    Args:
        array: numbers or booleans of any shape, padding left out, at least one.
        name: of the input.

    Returns:
        ``.mean``, ``.std``, ``.absmax``, the quantiles ``.p1``, ``.p50`` and ``.p99``, and
        ``.zeros``, the share of zeros, 0-1.
    """
    x = array.astype(np.float64).ravel()
    low, middle, high = np.quantile(x, [0.01, 0.5, 0.99])
    return {
        f"{name}.mean": float(x.mean()),
        f"{name}.std": float(x.std()),
        f"{name}.absmax": float(np.abs(x).max()),
        f"{name}.p1": float(low),
        f"{name}.p50": float(middle),
        f"{name}.p99": float(high),
        f"{name}.zeros": float((x == 0).mean()),
    }
