"""Bounds of least expected squared error, rounding and clipping together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.bounds import Bounds
from quantflow.ranges.density import density
from quantflow.ranges.distortion import squared_error
from quantflow.ranges.grid import Histogram
from quantflow.ranges.threshold_search import search, search_symmetric

SHARES = np.geomspace(1 / 256, 1, 65)
"""Candidate bounds, as shares of the observed extreme of a side: 9% from one to the next."""


def mse(hist: Histogram, *, symmetric: bool) -> Bounds:
    """Bounds of least expected squared error, over `SHARES` of the observed extremes.

    Symmetric ranges have 255 levels, asymmetric ones 256; the sides of an asymmetric range are
    searched one after the other (see `search`).
    """
    if not hist.absmax:
        return Bounds(0.0, 0.0)
    values = density(hist)
    scale = 1 / hist.absmax**2  # costs without a unit, so that ties are told at any magnitude

    def cost(lows: NDArray[np.float64], highs: NDArray[np.float64]) -> NDArray[np.float64]:
        steps = (highs - lows) / (254 if symmetric else 255)
        bottom = np.rint(lows / steps)
        top = bottom + (254 if symmetric else 255)
        return squared_error(values, bottom * steps, top * steps, steps) * scale

    if symmetric:
        return search_symmetric(hist.absmax * SHARES, cost)
    low, high = min(hist.low, 0.0), max(hist.high, 0.0)
    one = np.zeros(1)
    return search(low * SHARES if low else one, high * SHARES if high else one, cost)
