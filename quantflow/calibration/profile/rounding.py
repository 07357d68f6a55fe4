"""How exactly a profile tells numbers of single samples: only so far that none identifies a sample.

An exact number can be looked up: of the first activations of a language model, which token at which
position has it. So features are rounded to a grid about as wide as a sixteenth of their spread, and
activations to the bins of their histogram.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.grid import Histogram

STEPS = 16
"""Steps of the grid in the spread of a feature, and in every octave further out."""

_LARGEST = 1e300
_SHARES = (0.25, 0.1, 0.05, 0.01, 0.0)
_SIGN, _FINITE = 0x8000, 0x7F80

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FeatureGrid:
    """Cells that the values of F features are told by.

    About the median, cells are one step wide; from 32 steps off, each octave of the distance has
    `STEPS` cells, as floating-point numbers have.

    Attributes:
        centre: ``(F,)`` near the median.
        step: ``(F,)`` powers of two: 1/32 to 1/16 of the spread of the middle half, or of more
            where the middle half is one value; 0 for a feature that has one value only.
    """

    centre: Floats
    step: Floats

    @classmethod
    def of(cls, values: Floats) -> FeatureGrid:
        """The grid for a sample ``(N, F)``, N at least 1."""
        values = np.clip(values, -_LARGEST, _LARGEST)
        spread = np.zeros(values.shape[1])
        for share in _SHARES:
            low, high = np.quantile(values, (share, 1 - share), axis=0, method="nearest")
            spread = np.where(spread > 0, spread, high - low)
        step = np.exp2(np.floor(np.log2(np.where(spread > 0, spread, 1.0)))) / STEPS
        # So that halves of steps are floating-point numbers, too.
        step = np.maximum(step, 4 * np.spacing(np.abs(values).max(axis=0)))
        middle = np.quantile(values, 0.5, axis=0, method="nearest")
        constant = spread == 0
        centre = np.where(constant, middle, np.round(middle / step) * step)
        return cls(centre, np.where(constant, 0.0, step))

    def cells(self, values: Floats) -> NDArray[np.int64]:
        """Cell of every value ``(N, F)``, ascending with it; 0 at the centre."""
        values = np.clip(values, -_LARGEST, _LARGEST)
        steps = np.where(self.step > 0, self.step, 1.0)
        far = np.where(self.step > 0, (values - self.centre) / steps, 0.0)
        octave = np.maximum(np.frexp(np.abs(far))[1] - 5, 0)
        stretched = STEPS * octave + np.ldexp(np.abs(far), -octave)
        return np.floor(np.copysign(stretched, far) + 0.5).astype(np.int64)

    def values(self, cells: NDArray[Any], feature: int | None = None) -> Floats:
        """The value in the middle of every cell.

        Args:
            cells: ``(N, F)``, or ``(N,)`` of one feature; a half is the border of two cells.
            feature: which one, if it is one.
        """
        centre, step = self.centre, self.step
        if feature is not None:
            centre, step = centre[feature], step[feature]
        stretched = np.abs(np.asarray(cells, np.float64))
        octave = np.maximum(np.floor(stretched / STEPS) - 1, 0).astype(np.intp)
        far = np.ldexp(stretched - STEPS * octave, octave)
        return np.asarray(centre + step * np.copysign(far, cells), np.float64)


def towards_zero(values: Floats) -> Floats:
    """Float32 values rounded towards zero to a border of the histogram's bins; never ``-0.0``.

    Rounded towards zero, no extreme of a sample leaves a range that it does not leave in truth.
    """
    bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64) + 0.0


def rounded_histogram(hist: Histogram) -> Histogram:
    """A histogram whose extremes say no more than its counts: see `towards_zero`."""
    found = np.flatnonzero(hist.counts)
    positive = found[found < _FINITE]
    negative = found[(found >= _SIGN) & (found < _SIGN + _FINITE)]
    # In ascending order of value: negative patterns grow away from zero.
    ordered = np.concatenate([negative[::-1], positive]).astype(np.uint32)
    if not len(ordered):
        return Histogram(hist.counts, float("inf"), float("-inf"), hist.inf)
    low, high = (ordered[[0, -1]] << 16).view(np.float32).astype(np.float64) + 0.0
    return Histogram(hist.counts, float(low), float(high), hist.inf)
