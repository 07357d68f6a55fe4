"""The population stability index, a figure that monitoring of models commonly uses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOOR = 0.5
"""Samples that a bin is taken to hold at least: an empty one would make the index infinite."""


def stability_index(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """``sum (p - q) ln(p / q)`` (Lewis 1994), with at least half a sample in every bin.

    Jeffreys' divergence of the two histograms. By a rule of thumb, 0.1 is a small shift and 0.25 a
    large one; with few samples in a bin, chance alone exceeds both.

    Args:
        a, b: ``(..., B)`` counts in the same bins. Bins that both leave empty do not count.

    Returns:
        ``(...)``, 0 or more.
    """
    either = (a + b) > 0
    p = np.where(either, np.maximum(a, FLOOR), 0.0)
    q = np.where(either, np.maximum(b, FLOOR), 0.0)
    p, q = p / p.sum(axis=-1, keepdims=True), q / q.sum(axis=-1, keepdims=True)
    ratio = np.divide(p, q, out=np.ones_like(q), where=either)
    return ((p - q) * np.log(ratio)).sum(axis=-1)
