"""The estimators by their names in the configuration, and the candidates of `auto`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quantflow.ranges.bounds import Bounds
from quantflow.ranges.grid import Histogram
from quantflow.ranges.kl import kl
from quantflow.ranges.minmax import minmax
from quantflow.ranges.mse import mse
from quantflow.ranges.percentile import percentile


@dataclass(frozen=True, slots=True)
class EstimatorSettings:
    """What estimators are told.

    Attributes:
        symmetric: whether bounds are ``[-m, m]``.
        percentile: 0-100, for the percentile estimator.
    """

    symmetric: bool = False
    percentile: float = 99.99


Estimate = Callable[[Histogram, EstimatorSettings], Bounds]


def _minmax(hist: Histogram, settings: EstimatorSettings) -> Bounds:
    return minmax(hist, symmetric=settings.symmetric)


def _percentile(hist: Histogram, settings: EstimatorSettings) -> Bounds:
    return percentile(hist, percentile=settings.percentile, symmetric=settings.symmetric)


def _kl(hist: Histogram, settings: EstimatorSettings) -> Bounds:
    return kl(hist, symmetric=settings.symmetric)


def _mse(hist: Histogram, settings: EstimatorSettings) -> Bounds:
    return mse(hist, symmetric=settings.symmetric)


ESTIMATORS: Final[dict[str, Estimate]] = {
    "minmax": _minmax,
    "percentile": _percentile,
    "kl": _kl,
    "mse": _mse,
}
"""Every estimator of the configuration but `auto`, which chooses among their results."""

SHRINKS: Final = (0.9, 0.8, 0.7, 0.6, 0.5)
"""Shares of the observed range that `auto` tries as well."""


def candidates(hist: Histogram, settings: EstimatorSettings) -> dict[str, Bounds]:
    """The bounds of every estimator, and of the shrunken min-max ranges, by name."""
    found = {name: estimate(hist, settings) for name, estimate in ESTIMATORS.items()}
    widest = found["minmax"]
    for share in SHRINKS:
        found[f"minmax*{share}"] = Bounds(widest.low * share, widest.high * share)
    return found
