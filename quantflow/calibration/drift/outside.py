"""How surprising it is that so many samples of one set lie beyond all samples of another.

A set that is contaminated by a few samples of another kind moves no mean and no quantile much, but
those few lie together outside of what the other set shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def surprise(beyond: NDArray[Any], size: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
    """Square root of ``-log2`` of the probability that so many samples lie beyond all others.

    Of two draws of one distribution, the k samples that reach furthest all come from the first with
    probability ``m (m-1) ... (m-k+1) / ((m+n) (m+n-1) ... (m+n-k+1))``, whatever the distribution.
    The root gives it the tail of the Kolmogorov-Smirnov distance, so that both can be judged by one
    limit.

    Args:
        beyond: k, samples of the first set beyond an extreme of the second.
        size, other: m and n, numbers of samples of the two sets.

    Returns:
        In the shape of the arguments together: 0 where nothing is beyond, 1 where a coin decides.
    """
    from scipy.special import gammaln

    def falling(count: NDArray[Any]) -> NDArray[np.float64]:
        """Logarithm of ``count (count-1) ... (count-beyond+1)``."""
        return gammaln(count + 1.0) - gammaln(count - beyond + 1.0)

    bits = (falling(size + other) - falling(size)) / np.log(2)
    return np.sqrt(np.maximum(bits, 0))


def beyond_extremes(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """Samples of `a` in bins beyond all that `b` occupies, on the side where there are more.

    Args:
        a, b: ``(..., B)`` counts in the same bins, ascending; each histogram holds at least one.

    Returns:
        ``(...)`` int64.
    """
    occupied = b > 0
    up_to = np.maximum.accumulate(occupied, axis=-1)
    from_on = np.maximum.accumulate(occupied[..., ::-1], axis=-1)[..., ::-1]
    below = np.where(up_to, 0, a).sum(axis=-1)
    above = np.where(from_on, 0, a).sum(axis=-1)
    return np.maximum(below, above).astype(np.int64)
