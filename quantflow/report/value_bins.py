"""Bins for looking at a tensor's values: of equal width in the bulk, growing towards the tails."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.ranges_record import Split
from quantflow.ranges.density import density, mass_below
from quantflow.ranges.grid import Histogram
from quantflow.ranges.percentile import percentile

_BULK = 90.0
"""Percentage of the magnitudes that lie in the part of the axis that is about linear."""


def linear_width(histograms: Mapping[Split, Histogram]) -> float:
    """Where an axis that goes like ``asinh(x / width)`` turns from linear to logarithmic."""
    seen = histograms["calibration"]
    bulk = percentile(seen, percentile=_BULK, symmetric=True).high
    return bulk or seen.absmax / 100 or 1.0  # most values may be zero, or all


def binned(
    histograms: Mapping[Split, Histogram], bins: int
) -> tuple[NDArray[np.float64], dict[Split, NDArray[np.float64]]]:
    """Counts of both splits over the same bins, which cover all values and zero.

    Returns:
        Edges ``(bins + 1,)`` float64, and by split ``(bins,)`` float64 numbers of values, which
        need not be whole: values are taken as evenly spread over the histogram's own bins.
    """
    filled = [hist for hist in histograms.values() if hist.count]
    low, high = min([0.0, *(x.low for x in filled)]), max([0.0, *(x.high for x in filled)])
    if low == high:
        low, high = -1.0, 1.0
    width = linear_width(histograms)
    first, last = float(np.arcsinh(low / width)), float(np.arcsinh(high / width))
    edges = np.sinh(np.linspace(first, last, bins + 1)) * width
    edges[[0, -1]] = low, high
    counts = dict[Split, NDArray[np.float64]]()
    for split, hist in histograms.items():
        values = density(hist)
        below = mass_below(values, edges)
        below[-1] = values.total  # values that equal the last edge are in the last bin
        counts[split] = np.diff(below)
    return edges, counts
