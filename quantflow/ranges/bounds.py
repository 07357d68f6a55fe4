"""The bounds that an estimator gives a tensor."""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    """Where values are clipped: ``low <= high``, finite, in units of the tensor."""

    low: float
    high: float
