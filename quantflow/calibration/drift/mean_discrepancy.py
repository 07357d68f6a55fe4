"""The maximum mean discrepancy: a distance of whole distributions, all features at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def mean_discrepancy(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance of two kernel means, ``|mean_a - mean_b|`` (Gretton et al. 2012, biased form).

    Args:
        a, b: ``(..., D)`` means of random features, as in `quantflow.calibration.profile.kernel`.

    Returns:
        ``(...)``, 0 (equal) to about ``sqrt(2)``.
    """
    return np.sqrt(((a - b) ** 2).sum(axis=-1))
