"""The clipping report: what every candidate range does to a tensor, from its histogram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.ranges_record import ClippingRow, Split
from quantflow.numerics.quantize import QMAX, QMIN, activation_params
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.density import Density, density, mass_below, mean_square
from quantflow.ranges.distortion import energy_beyond, squared_error
from quantflow.ranges.grid import Histogram

NEAR = 0.1
"""Values within this share of a bound, inside it, are near the threshold."""

MAX_CLIPPED_FRACTION = 1e-3
MAX_ENERGY_LOST_FRACTION = 1e-2
MAX_CLIPPING_RATIO = 10.0
MAX_EXCESS_FRACTION = 0.1
"""A row is flagged above these; the last is how far held-out values leave the calibrated range."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a set of rows is about.

    Attributes:
        tensor, group, split: see `ClippingRow`.
        symmetric: whether the zero point is 0.
        ids: names of the samples.
        sample_low, sample_high: ``(S,)`` float64 extremes of every sample.
        calibrated: the calibration histogram that a held-out split is compared with, or None.
    """

    tensor: str
    group: str
    split: Split
    symmetric: bool
    ids: Sequence[str]
    sample_low: NDArray[np.float64]
    sample_high: NDArray[np.float64]
    calibrated: Histogram | None = None


@dataclass(frozen=True, slots=True)
class _Grid:
    """The levels of a quantizer: lowest, highest and their distance."""

    low: float
    high: float
    step: float


def clipping_rows(
    hist: Histogram, candidates: Mapping[str, Bounds], chosen: str, subject: Subject
) -> list[ClippingRow]:
    """One row for every candidate.

    A value is clipped when the level it is rounded to does not exist, that is, when it lies more
    than half a step beyond the outermost level.

    Args:
        hist: of the tensor on the subject's split.
        candidates: bounds by name.
        chosen: name of the range in force.
        subject: what the rows are about.
    """
    values = density(hist)
    grids = {name: _grid(bounds, subject.symmetric) for name, bounds in candidates.items()}
    levels = np.array([[x.low, x.high, x.step] for x in grids.values()]).reshape(-1, 3)
    noises, power = squared_error(values, *levels.T), mean_square(values)
    return [
        _row(hist, values, name, grid, power, float(noise), name == chosen, subject)
        for (name, grid), noise in zip(grids.items(), noises, strict=True)
    ]


def _row(
    hist: Histogram,
    values: Density,
    name: str,
    grid: _Grid,
    power: float,
    noise: float,
    chosen: bool,
    subject: Subject,
) -> ClippingRow:
    below, above, near = _shares(values, grid)
    ratio = hist.absmax / max(-grid.low, grid.high)
    if not below + above:
        ratio = min(ratio, 1.0)  # half a step beyond the last level is rounding, not clipping
    lost = energy_beyond(values, grid.low, grid.high, grid.step) / power if power else 0.0
    return ClippingRow(
        tensor=subject.tensor,
        group=subject.group,
        split=subject.split,
        candidate=name,
        chosen=chosen,
        low=grid.low,
        high=grid.high,
        absmax=hist.absmax,
        clipping_ratio=ratio,
        clipped_low_fraction=below,
        clipped_high_fraction=above,
        energy_lost_fraction=lost,
        sqnr_db=_decibels(power, noise),
        near_threshold_fraction=near,
        worst_samples=_worst_samples(subject, grid),
        flag=_flag(hist, ratio, below + above, lost, subject),
    )


def _grid(bounds: Bounds, symmetric: bool) -> _Grid:
    params = activation_params(*bounds, symmetric=symmetric)
    lowest = -QMAX if symmetric else QMIN
    low = (lowest - params.zero_point) * params.scale
    return _Grid(low, (QMAX - params.zero_point) * params.scale, params.scale)


def _shares(values: Density, grid: _Grid) -> tuple[float, float, float]:
    """Shares of the values: clipped low, clipped high, near a bound without being clipped."""
    half, keep = grid.step / 2, 1 - NEAR
    points = np.array([grid.low - half, grid.low * keep, grid.high * keep, grid.high + half])
    below, to_low, from_high, rest = (float(x) for x in mass_below(values, points))
    near = to_low - below if grid.low < 0 else 0.0
    near += rest - from_high if grid.high > 0 else 0.0
    total = max(values.total, 1.0)
    return below / total, (values.total - rest) / total, near / total


def _worst_samples(subject: Subject, grid: _Grid) -> tuple[str, ...]:
    """The samples that reach furthest beyond, or closest to, a bound."""
    reach = np.maximum(subject.sample_high - grid.high, grid.low - subject.sample_low)
    names = np.array(subject.ids)
    order = np.lexsort((names, -reach))[:3]
    return tuple(str(names[index]) for index in order if np.isfinite(reach[index]))


def _decibels(power: float, noise: float) -> float:
    """Signal to noise ratio; infinite without noise, NaN without a signal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(10 * np.log10(np.float64(power) / np.float64(noise)))


def _flag(hist: Histogram, ratio: float, clipped: float, lost: float, subject: Subject) -> str:
    reasons: list[str] = []
    excess = _excess(hist, subject.calibrated) if subject.calibrated else 0.0
    if excess > MAX_EXCESS_FRACTION:
        reasons.append(f"values reach {excess:.0%} of the calibrated width beyond it")
    if ratio > MAX_CLIPPING_RATIO:
        reasons.append(f"the largest value is {ratio:.3g} times the bound")
    if clipped > MAX_CLIPPED_FRACTION:
        reasons.append(f"{clipped:.2%} of the values are clipped")
    if lost > MAX_ENERGY_LOST_FRACTION:
        reasons.append(f"clipping removes {lost:.2%} of the energy")
    return "; ".join(reasons)


def _excess(hist: Histogram, calibrated: Histogram) -> float:
    """How far values lie outside the calibrated range, zero included, in widths of it."""
    low, high = min(calibrated.low, 0.0), max(calibrated.high, 0.0)
    beyond = max(hist.high - high, low - hist.low, 0.0)
    if not beyond:
        return 0.0
    return beyond / (high - low) if high > low else float("inf")
