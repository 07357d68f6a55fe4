"""The observed extremes: nothing is clipped."""

from __future__ import annotations

from quantflow.ranges.bounds import Bounds
from quantflow.ranges.grid import Histogram


def minmax(hist: Histogram, *, symmetric: bool) -> Bounds:
    """Smallest and largest value, or ``[-m, m]`` with the largest magnitude; zeros of no values."""
    if not hist.count:
        return Bounds(0.0, 0.0)
    if symmetric:
        return Bounds(-hist.absmax, hist.absmax)
    return Bounds(hist.low, hist.high)
