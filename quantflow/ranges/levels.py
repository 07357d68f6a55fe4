"""The levels that quantizers have, as numbers of the tensor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.quantize import QMAX, QMIN, activation_params
from quantflow.ranges.bounds import Bounds

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of C quantizers: lowest, highest and their distance, ``(C,)`` float64 each."""

    low: Floats
    high: Floats
    step: Floats


def levels_of(candidates: Iterable[Bounds], *, symmetric: bool) -> Levels:
    """The levels of every candidate, 255 where they are symmetric and 256 where not."""
    params = [activation_params(*bounds, symmetric=symmetric) for bounds in candidates]
    zero = np.array([x.zero_point for x in params])
    step = np.array([x.scale for x in params])
    return Levels(((-QMAX if symmetric else QMIN) - zero) * step, (QMAX - zero) * step, step)
