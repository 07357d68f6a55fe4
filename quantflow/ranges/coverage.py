"""Range coverage: do the activations of deployment stay inside what calibration saw?

If calibration and held-out samples are draws of one distribution, any order of them is as likely as
any other. The k samples that reach furthest are then all held-out ones with probability
``m (m-1) ... (m-k+1) / ((n+m) (n+m-1) ... (n+m-k+1))``, n calibration and m held-out samples given.
So that probability says, for every tensor and without any assumption on its values, whether more
held-out samples leave the calibrated range than chance explains.
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
from quantflow.ranges.density import density, mass_below
from quantflow.ranges.grid import Histogram

CERTAIN = 0.01
"""Corrected probability below which an excess is no chance."""

LARGE_EXCESS = 0.1
"""Excess share of samples outside from which on a certain excess is a failure."""


def exceedance_p_value(exceeding: int, calibration: int, heldout: int) -> float:
    """Probability that the `exceeding` most extreme of all samples are held-out ones.

    Args:
        exceeding: held-out samples beyond the calibration extreme of one side.
        calibration, heldout: number of samples of each kind.
    """
    i = np.arange(exceeding)
    return float(np.exp(np.log((heldout - i) / (calibration + heldout - i)).sum()))


def outside_fraction(hist: Histogram, bounds: Bounds) -> float:
    """Share of the values beyond some bounds, 0-1, exact to the width of a histogram bin."""
    if hist.low >= bounds.low and hist.high <= bounds.high:
        return 0.0
    values = density(hist)
    below, upto = mass_below(values, np.array([bounds.low, bounds.high]))
    return float(below + values.total - upto) / max(values.total, 1.0)


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
        tensors: how many tensors are tested, which the p-value is corrected for (Bonferroni, two
            sides each).
    """
    # A quantized range contains zero. Up to half a step beyond it is rounding; leaving that out
    # only raises the p-value.
    width = max(calibration.high, 0.0) - min(calibration.low, 0.0)
    margin = width / 510
    below = heldout.sample_low < calibration.low - margin
    above = heldout.sample_high > calibration.high + margin
    count = len(heldout.sample_low)
    p = min(exceedance_p_value(int(side.sum()), samples, count) for side in (below, above))
    p = min(1.0, p * 2 * tensors)
    share, expected = float((below | above).mean()), min(1.0, 2 / (samples + 1))
    with np.errstate(invalid="ignore"):  # without a finite value, extremes are infinite
        low, high = calibration.low, calibration.high
        beyond = np.maximum(low - heldout.sample_low, heldout.sample_high - high)
    reach = _reach(beyond, width)
    order = np.argsort(-reach, kind="stable")[:3] if ids else ()
    return CoverageRow(
        tensor=tensor,
        group=group,
        outside_fraction=outside_fraction(heldout.histogram, Bounds(low, high)),
        clipped_fraction=outside_fraction(heldout.histogram, chosen),
        samples_outside_fraction=share,
        expected_fraction=expected,
        p_value=p,
        reach=float(reach.max(initial=1.0)),
        worst_samples=tuple(ids[int(i)] for i in order if reach[i] > 1),
        verdict=_verdict(p, share - expected),
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
    reasons = [
        f"{row.group}: {row.samples_outside_fraction:.0%} of the deployment samples leave the "
        f"calibrated range (expected {row.expected_fraction:.0%}), up to {row.reach:.3g} times it"
        for row in sorted(rows, key=lambda row: row.p_value)
        if row.verdict != "pass"
    ]
    verdicts: list[Verdict] = [row.verdict for row in rows]
    return CoverageReport(
        verdict=worst(*verdicts),
        reasons=tuple(reasons),
        calibration_samples=calibration_samples,
        heldout_samples=heldout_samples,
        deployment=deployment,
        rows=tuple(rows),
    )


def _verdict(p: float, excess: float) -> Verdict:
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
