"""How far apart two models are that were measured on the same samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.bootstrap import bootstrap_values, interval_of

Values = NDArray[np.float64]
Draw = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Paired:
    """A difference of two models.

    Attributes:
        difference: of the first less the second, over all samples.
        low, high: its 95% percentile bootstrap interval over samples, which both models share, so
            that what samples differ by cancels.
        spread: its standard error times the square root of the number of samples: the standard
            deviation of one sample's difference, where it is a mean.
    """

    difference: float
    low: float
    high: float
    spread: float


def paired_means(
    first: Values, second: Values, weights: Values | None = None, *, seed: int
) -> Paired:
    """The difference of two means over the same samples.

    The standard error is that of a ratio of sums, linearised:
    ``sqrt(N / (N - 1) sum w^2 (d - mean)^2) / sum w`` (Cochran, Sampling Techniques, 1977,
    chapter 6).

    Args:
        first, second: ``(N,)``, a value a sample.
        weights: ``(N,)``, how much each counts, 0 or more; None where all count alike. A sample
            without weight is left out.
        seed: of the bootstrap.

    Returns:
        All NaN where a value that counts is not finite, or nothing counts; the spread of a single
        sample is NaN.

    Raises:
        ValueError: when the lengths differ.
    """
    weights = np.ones(len(first)) if weights is None else weights
    if not first.shape == second.shape == weights.shape:
        raise ValueError(f"values {first.shape}, {second.shape} and weights {weights.shape}")
    counts = weights > 0
    with np.errstate(invalid="ignore"):  # infinite in both gives NaN
        x, w = (first - second)[counts], weights[counts]
    if not len(x) or not np.isfinite(x).all():
        return Paired(*[float("nan")] * 4)
    mean = float((x * w).sum() / w.sum())
    draws = bootstrap_values(
        lambda draw: float((x[draw] * w[draw]).sum() / w[draw].sum()), len(x), seed=seed
    )
    n = len(x)
    square = float(np.square(w * (x - mean)).sum()) * n / (n - 1) if n > 1 else float("nan")
    return Paired(mean, *interval_of(draws), sqrt(square * n) / float(w.sum()))


def paired_statistics(
    first: Callable[[Draw], float], second: Callable[[Draw], float], count: int, *, seed: int
) -> Paired:
    """The difference of any statistic of two models over the same units.

    The standard error is that of the bootstrap (Efron 1979).

    Args:
        first, second: map ``(count,)`` indices of units to the statistic over these. A resample in
            which either is NaN is left out, unless it is NaN over all units.
        count: number of units.
        seed: of the bootstrap.
    """
    every = np.arange(count)
    difference = first(every) - second(every)
    if not np.isfinite(difference):
        return Paired(difference, *[float("nan")] * 3)
    draws = bootstrap_values(lambda draw: first(draw) - second(draw), count, seed=seed)
    spread = float(draws.std(ddof=1)) * sqrt(count) if len(draws) > 1 else float("nan")
    return Paired(difference, *interval_of(draws), spread)
