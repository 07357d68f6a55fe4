"""Range coverage: do the activations of deployment stay inside what calibration saw?

Four questions for every tensor. Do more samples leave calibration's extremes than chance explains
(`exceedance`)? Does the range in force clip more than it did at calibration (`saturation`)? Does
any sample reach so far that chance is beside the point? Is everything a number?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.coverage_record import CoverageReport, CoverageRow, Deployment
from quantflow.artifacts.ranges_record import TensorRange
from quantflow.artifacts.record import Verdict, worst
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.collect import Collection, TensorStatistics
from quantflow.ranges.coverage_reasons import reason_of
from quantflow.ranges.exceedance import two_sided_p_value
from quantflow.ranges.grid import Histogram
from quantflow.ranges.saturation import (
    certainly_beyond,
    largest_share,
    near_fraction,
    outside_fraction,
    saturation_p_value,
    saturation_verdict,
)

CERTAIN = 0.01
"""Corrected probability below which an excess is no chance."""

LARGE_EXCESS = 0.1
"""Excess share of samples outside from which on a certain excess is a failure."""

FAR = 3.0
"""Reach from which even a single sample is a warning; values are then five times as large as any of
calibration, where ranges are symmetric."""

_NAMED = 10


def coverage_row(
    tensor: str,
    group: str,
    calibration: Histogram,
    heldout: TensorStatistics,
    ids: Sequence[str],
    chosen: Bounds,
    *,
    samples: int,
    tensors: int,
) -> CoverageRow:
    """Coverage of one tensor.

    Args:
        tensor, group: names.
        calibration: its histogram on the calibration set.
        heldout: its statistics on the held-out samples, or those of a profile.
        ids: of the held-out samples; none where they cannot be told apart, as in a profile.
        chosen: the range in force.
        samples: of the calibration set.
        tensors: how many tensors are tested, which p-values are corrected for (Bonferroni).
    """
    # A quantized range contains zero. Up to half a step beyond it is rounding; leaving that out
    # only raises the p-value.
    width = max(calibration.high, 0.0) - min(calibration.low, 0.0)
    margin = width / 510
    seen, count = heldout.histogram, len(heldout.sample_low)
    below = heldout.sample_low < calibration.low - margin
    above = heldout.sample_high > calibration.high + margin
    p = min(1.0, two_sided_p_value(below, above, samples) * tensors)
    # A sample of which NaN and Inf leave nothing is not inside. One may have no values at all.
    nothing = (heldout.sample_low > heldout.sample_high) & (seen.nonfinite > 0)
    share, expected = float((below | above | nothing).mean()), min(1.0, 2 / (samples + 1))
    with np.errstate(invalid="ignore"):  # without a finite value, extremes are infinite
        low, high = calibration.low, calibration.high
        beyond = np.maximum(low - heldout.sample_low, heldout.sample_high - high)
    reach = _reach(beyond, width)
    furthest = float(reach.max(initial=1.0))
    order = np.argsort(-reach, kind="stable")[:3] if ids else ()
    bounds = certainly_beyond(chosen)
    before, now = (outside_fraction(hist, bounds) for hist in (calibration, seen))
    clipped = (heldout.sample_low < bounds.low) | (heldout.sample_high > bounds.high)
    mild, certain = (
        min(1.0, saturation_p_value(before, now, samples, count, largest) * tensors)
        for largest in (largest_share(now, float(clipped.mean())), 1.0)
    )
    return CoverageRow(
        tensor=tensor,
        group=group,
        outside_fraction=outside_fraction(seen, Bounds(low, high)),
        clipped_fraction=now,
        calibration_clipped_fraction=before,
        clipped_p_value=mild,
        near_threshold_fraction=near_fraction(seen, chosen),
        calibration_near_threshold_fraction=near_fraction(calibration, chosen),
        samples_outside_fraction=share,
        expected_fraction=expected,
        p_value=p,
        reach=furthest,
        worst_samples=tuple(ids[int(i)] for i in order if reach[i] > 1),
        nonfinite=seen.nonfinite,
        nonfinite_samples=heldout.nonfinite_samples[:_NAMED],
        verdict=worst(
            "fail" if seen.nonfinite else "pass",
            _outside_verdict(p, share - expected),
            saturation_verdict(mild, certain, now - before),
            "warn" if furthest >= FAR else "pass",
        ),
    )


def coverage_of(
    ranges: Sequence[TensorRange],
    group_of: Callable[[str], str],
    calibration: Mapping[str, Histogram],
    samples: int,
    deployment: Collection,
) -> CoverageReport:
    """Coverage of every range in force.

    Args:
        ranges: of all tensors.
        group_of: name of a tensor's group.
        calibration: histograms of the calibration set.
        samples: of the calibration set.
        deployment: statistics of held-out samples, or those of a profile, which have no ids.
    """
    rows = [
        coverage_row(
            chosen.tensor,
            group_of(chosen.tensor),
            calibration[chosen.tensor],
            deployment.tensors[chosen.tensor],
            deployment.ids,
            Bounds(chosen.low, chosen.high),
            samples=samples,
            tensors=len(ranges),
        )
        for chosen in ranges
    ]
    seen = (len(tensor.sample_low) for tensor in deployment.tensors.values())
    count = max(seen, default=len(deployment.ids))
    source: Deployment = "held-out samples" if deployment.ids else "profile"
    return coverage_report(rows, samples, count, source)


def coverage_report(
    rows: Sequence[CoverageRow],
    calibration_samples: int,
    heldout_samples: int,
    deployment: Deployment = "held-out samples",
) -> CoverageReport:
    """The verdict over all tensors.

    Args:
        rows: of every tensor.
        calibration_samples, heldout_samples: how many were seen.
        deployment: where the latter come from.
    """
    ordered = sorted(rows, key=lambda x: (not x.nonfinite, min(x.p_value, x.clipped_p_value)))
    verdicts: list[Verdict] = [row.verdict for row in rows]
    return CoverageReport(
        verdict=worst(*verdicts),
        reasons=tuple(reason_of(row) for row in ordered if row.verdict != "pass"),
        calibration_samples=calibration_samples,
        heldout_samples=heldout_samples,
        deployment=deployment,
        rows=tuple(rows),
    )


def _outside_verdict(p: float, excess: float) -> Verdict:
    if p >= CERTAIN:
        return "pass"
    return "fail" if excess >= LARGE_EXCESS else "warn"


def _reach(beyond: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """How far each sample goes, relative to the width of the calibrated range, zero included.

    1 for a sample inside. Measured against the whole range, so that a side that ends near zero does
    not make every excess look huge.
    """
    excess = np.where(np.isfinite(beyond), np.maximum(beyond, 0.0), 0.0)
    return 1 + excess / max(width, float(np.finfo(np.float32).tiny))
