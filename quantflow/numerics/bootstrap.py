"""Percentile bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def bootstrap_interval(
    statistic: Callable[[NDArray[np.intp]], float],
    count: int,
    *,
    seed: int,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Percentile bootstrap interval (Efron 1979) of a statistic of `count` units.

    Args:
        statistic: maps ``(count,)`` indices, drawn with replacement, to a value. A NaN, as from a
            resample without variance, is left out.
        count: number of units.
        seed: of the resampling.
        resamples: number of resamples.
        confidence: mass of the interval, 0-1.

    Returns:
        Lower and upper end; NaN when every resample gives NaN.
    """
    values = bootstrap_values(statistic, count, seed=seed, resamples=resamples)
    return interval_of(values, confidence)


def bootstrap_values(
    statistic: Callable[[NDArray[np.intp]], float], count: int, *, seed: int, resamples: int = 1000
) -> NDArray[np.float64]:
    """A statistic in every resample but those where it is NaN; see `bootstrap_interval`.

    Returns:
        ``(resamples,)`` float64 at most.
    """
    rng = np.random.default_rng(seed)
    draws = (rng.integers(0, count, count) for _ in range(resamples))
    values = np.array([statistic(draw) for draw in draws], np.float64)
    return values[~np.isnan(values)]


def interval_of(values: NDArray[np.float64], confidence: float = 0.95) -> tuple[float, float]:
    """The percentiles of a bootstrap's values that leave equal tails; NaN without values."""
    if not len(values):
        return float("nan"), float("nan")
    tail = (1 - confidence) / 2
    with np.errstate(invalid="ignore"):  # an end between infinite values is NaN
        low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def mean_interval(values: NDArray[np.float64], *, seed: int) -> tuple[float, float]:
    """95% bootstrap interval of the mean of ``(N,)`` values.

    NaN when a value is not finite: resamples that miss it would say that all is well.
    """
    if not np.isfinite(values).all():
        return float("nan"), float("nan")
    return bootstrap_interval(lambda draw: float(values[draw].mean()), len(values), seed=seed)
