"""Saturation: how much of a tensor the range in force clips, now and when it was chosen.

A range may clip on purpose, so its own clipped share is what deployment is compared with. Values of
one sample are not independent, so samples are what is counted.
"""

from __future__ import annotations

from math import exp, log

import numpy as np

from quantflow.artifacts.record import Verdict
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.clipping import NEAR
from quantflow.ranges.density import density, mass_below
from quantflow.ranges.grid import Histogram

CERTAIN = 0.01
"""Corrected probability below which an excess is no chance."""

LEAST_EXCESS = 0.01
"""Excess share of clipped values below which it does not matter, however certain it is."""

LARGE_EXCESS = 0.05
"""Excess share of clipped values from which on a certain excess is a failure."""

SKEW = 5.0
"""How many times the mean of the samples that are clipped a single one is taken to be, at most."""


def outside_fraction(hist: Histogram, bounds: Bounds) -> float:
    """Share of the values beyond some bounds, 0-1, exact to the width of a histogram bin."""
    if hist.low >= bounds.low and hist.high <= bounds.high:
        return 0.0
    values = density(hist)
    below, upto = mass_below(values, np.array([bounds.low, bounds.high]))
    return float(below + values.total - upto) / max(values.total, 1.0)


def certainly_beyond(chosen: Bounds) -> Bounds:
    """Bounds whose outside is clipped by a range for certain, as far as a histogram can tell.

    Half a step beyond the range is rounding. A bin of the histogram, up to ``2**-7`` of its value
    wide, may hold values that all equal the bound.
    """
    half = (max(chosen.high, 0.0) - min(chosen.low, 0.0)) / 510
    low, high = (
        bound + abs(bound) * side / 128 for bound, side in zip(chosen, (-1, 1), strict=True)
    )
    return Bounds(low - half, high + half)


def near_fraction(hist: Histogram, bounds: Bounds) -> float:
    """Share of the values within `NEAR` of a bound, inside it, 0-1; a bound of zero has none."""
    values, keep = density(hist), 1 - NEAR
    inner = np.array([bounds.low * keep, bounds.high * keep])
    outer = np.array([bounds.low, bounds.high])
    # The bounds themselves, and values exactly at them, are inside.
    to_low, from_high = mass_below(values, np.array([np.nextafter(inner[0], np.inf), inner[1]]))
    from_low, to_high = mass_below(values, np.array([outer[0], np.nextafter(outer[1], np.inf)]))
    near = (to_low - from_low if bounds.low < 0 else 0.0) + (
        to_high - from_high if bounds.high > 0 else 0.0
    )
    return float(near) / max(values.total, 1.0)


def largest_share(clipped: float, samples: float) -> float:
    """The share of its values that any one sample has clipped, at most, 0-1.

    Args:
        clipped: share of all values that are clipped, 0-1.
        samples: share of samples with a clipped value, 0-1.
    """
    return min(1.0, SKEW * clipped / samples) if samples > 0 else 1.0


def saturation_p_value(
    before: float, now: float, calibration: int, deployment: int, largest: float = 1.0
) -> float:
    """Probability that the clipped shares of two draws of samples lie so far apart by chance.

    An upper bound, ``exp(-n KL(before | q) - m KL(now | q))`` with q the share of both together:
    Hoeffding's inequality (1963, theorem 1) for means of n and of m independent numbers between 0
    and `largest`, which the clipped shares of single samples are, however the values of a sample
    depend on each other. That samples differ in length is left out of account.

    Args:
        before, now: share of clipped values, 0-1, at calibration and in deployment.
        calibration, deployment: numbers of samples.
        largest: share of its values that a single sample has clipped at most, 0-1.
    """
    if now <= before:
        return 1.0
    largest = max(largest, now)
    low, high = before / largest, now / largest
    both = (calibration * low + deployment * high) / (calibration + deployment)
    return exp(-calibration * _divergence(low, both) - deployment * _divergence(high, both))


def saturation_verdict(p: float, certain: float, excess: float) -> Verdict:
    """Whether more is clipped than was bargained for.

    Args:
        p: corrected probability where no sample is clipped more than `largest_share`.
        certain: the same where any sample may be clipped whole; a failure needs that.
        excess: share of clipped values, less that at calibration.
    """
    if p >= CERTAIN or excess < LEAST_EXCESS:
        return "pass"
    return "fail" if excess >= LARGE_EXCESS and certain < CERTAIN else "warn"


def _divergence(p: float, q: float) -> float:
    """Kullback-Leibler divergence of two coins, in nats; `q` lies within 0-1 where `p` differs."""
    heads = p * log(p / q) if p > 0 else 0.0
    tails = (1 - p) * log((1 - p) / (1 - q)) if p < 1 else 0.0
    return max(heads + tails, 0.0)
