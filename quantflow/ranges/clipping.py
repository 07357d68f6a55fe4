"""The clipping report: what every candidate range does to a tensor, from its histogram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.ranges_record import ClippingRow, Split
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.density import Density, density, mass_below, mean_square
from quantflow.ranges.distortion import energy_beyond, squared_error
from quantflow.ranges.grid import Histogram
from quantflow.ranges.levels import Levels, levels_of

Floats = NDArray[np.float64]

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
    sample_low: Floats
    sample_high: Floats
    calibrated: Histogram | None = None


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
    grids = levels_of(candidates.values(), symmetric=subject.symmetric)
    values = density(hist)
    power = mean_square(values)
    noise = squared_error(values, grids.low, grids.high, grids.step)
    lost = energy_beyond(values, grids.low, grids.high, grids.step) / (power or 1.0)
    below, above, near = _shares(values, grids)
    ratio = hist.absmax / np.maximum(-grids.low, grids.high)
    # Half a step beyond the last level is rounding, not clipping.
    ratio = np.where(below + above > 0, ratio, np.minimum(ratio, 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        decibels = 10 * np.log10(power / noise)  # infinite without noise, NaN without a signal
    worst = _worst_samples(subject, grids)
    excess = _excess(hist, subject.calibrated) if subject.calibrated else 0.0
    return [
        ClippingRow(
            tensor=subject.tensor,
            group=subject.group,
            split=subject.split,
            candidate=name,
            chosen=name == chosen,
            low=float(grids.low[i]),
            high=float(grids.high[i]),
            absmax=hist.absmax,
            clipping_ratio=float(ratio[i]),
            clipped_low_fraction=float(below[i]),
            clipped_high_fraction=float(above[i]),
            energy_lost_fraction=float(lost[i]),
            sqnr_db=float(decibels[i]),
            near_threshold_fraction=float(near[i]),
            worst_samples=worst[i],
            flag=_flag(excess, ratio[i], below[i] + above[i], lost[i]),
        )
        for i, name in enumerate(candidates)
    ]


def _shares(values: Density, grids: Levels) -> tuple[Floats, Floats, Floats]:
    """Shares of the values: clipped low, clipped high, near a bound without being clipped."""
    low, high, half, keep = grids.low, grids.high, grids.step / 2, 1 - NEAR
    points = np.concatenate([low - half, low * keep, high * keep, high + half])
    below, to_low, from_high, rest = mass_below(values, points).reshape(4, -1)
    near = np.where(low < 0, to_low - below, 0.0) + np.where(high > 0, rest - from_high, 0.0)
    total = max(values.total, 1.0)
    return below / total, (values.total - rest) / total, near / total


def _worst_samples(subject: Subject, grids: Levels) -> list[tuple[str, ...]]:
    """The samples that reach furthest beyond, or closest to, a bound, for every quantizer."""
    beyond = subject.sample_high - grids.high[:, None]
    reach = np.maximum(beyond, grids.low[:, None] - subject.sample_low)
    by_name = np.argsort(np.array(subject.ids), kind="stable")
    order = by_name[np.argsort(-reach[:, by_name], axis=1, kind="stable")[:, :3]]
    return [
        tuple(subject.ids[int(i)] for i in places if np.isfinite(found[i]))
        for places, found in zip(order.tolist(), reach, strict=True)
    ]


def _flag(excess: float, ratio: float, clipped: float, lost: float) -> str:
    reasons: list[str] = []
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
