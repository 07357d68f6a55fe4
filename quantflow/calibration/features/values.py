"""Features of inputs that hold measurements: pixels, sound, any floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SHORT = 1024
"""Values up to which sorting is faster than partitioning."""


def value_features(array: NDArray[Any], name: str) -> dict[str, float]:
    """Moments, extremes and quantiles of a sample's values, in the input's own units.

    Args:
        array: numbers or booleans of any shape, padding left out, at least one.
        name: of the input.

    Returns:
        ``.mean``, ``.std``, ``.absmax``, the quantiles ``.p1``, ``.p50`` and ``.p99``, and
        ``.zeros``, the share of zeros, 0-1.
    """
    x = array.ravel()
    low, middle, high = quantiles(x, (0.01, 0.5, 0.99))
    return {
        f"{name}.mean": float(x.mean(dtype=np.float64)),
        f"{name}.std": float(x.std(dtype=np.float64)),
        f"{name}.absmax": max(-float(x.min()), float(x.max())),
        f"{name}.p1": low,
        f"{name}.p50": middle,
        f"{name}.p99": high,
        f"{name}.zeros": 1 - int(np.count_nonzero(x)) / x.size,
    }


def quantiles(x: NDArray[Any], shares: Sequence[float]) -> list[float]:
    """Quantiles with linear interpolation (Hyndman and Fan 1996, type 7).

    As `np.quantile`, whose checks take longer than all features of a short sample.

    Args:
        x: ``(N,)`` numbers or booleans, at least one.
        shares: where, 0-1.
    """
    places = [share * (len(x) - 1) for share in shares]
    wanted = {i for place in places for i in (int(place), min(int(place) + 1, len(x) - 1))}
    ordered = np.sort(x) if len(x) <= _SHORT else np.partition(x, sorted(wanted))
    found = list[float]()
    for place in places:
        below = float(ordered[int(place)])
        above = float(ordered[min(int(place) + 1, len(x) - 1)])
        found.append(below + (above - below) * (place - int(place)))
    return found
