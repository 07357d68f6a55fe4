"""The Wasserstein distance of two samples, in units of their common spread."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.drift.ks import gaps


def wasserstein_distance(
    a: NDArray[Any], b: NDArray[Any], centres: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Normalised Wasserstein-1 distance of two histograms.

    ``W1 / s`` with ``W1`` the area between the distribution functions (Vallender 1974) and ``s``
    the standard deviation of the mixture of both samples in equal parts. So it has no unit, and a
    single extreme value among N cannot make it larger than ``sqrt(2 / N)``.

    Args:
        a, b: ``(..., B)`` counts in the same bins; each histogram holds at least one.
        centres: ``(..., B)`` what the values of a bin are taken to be, ascending and finite.

    Returns:
        ``(...)``, each 0 (equal) to 2 (two different constants).
    """
    area = (np.abs(gaps(a, b))[..., :-1] * np.diff(centres, axis=-1)).sum(axis=-1)
    shares = a / a.sum(axis=-1, keepdims=True) + b / b.sum(axis=-1, keepdims=True)
    mean = (shares * centres).sum(axis=-1, keepdims=True) / 2
    spread = np.sqrt((shares * (centres - mean) ** 2).sum(axis=-1) / 2)
    return np.divide(area, spread, out=np.zeros_like(area), where=spread > 0)
