"""Whether deployment stays inside what calibration saw (`20_ranges/coverage.json`)."""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.record import Record, Verdict

Deployment = Literal["held-out samples", "profile"]
"""Where the activations of production come from."""


class CoverageRow(Record):
    """One tensor on the samples of deployment.

    Attributes:
        tensor, group: what.
        outside_fraction: share of values beyond the extremes of the calibration set, 0-1.
        clipped_fraction: share of values beyond the range in force, by more than half a step and a
            bin of the histogram, 0-1.
        calibration_clipped_fraction: that share on the calibration set, 0-1.
        clipped_p_value: probability that chance alone clips so much more, corrected for the number
            of tensors; an upper bound.
        near_threshold_fraction: share of values within 10% of a bound in force, inside it, 0-1.
        calibration_near_threshold_fraction: that share on the calibration set, 0-1.
        samples_outside_fraction: share of samples with a value more than half a quantization step
            beyond those extremes, 0-1.
        expected_fraction: that share when both sets are draws of one distribution, 0-1.
        p_value: probability of so many such samples in that case, corrected for the number of
            tensors; an upper bound.
        reach: 1 plus the largest distance beyond an extreme, relative to the width of the
            calibrated range, zero included; 1 when nothing is beyond.
        worst_samples: ids of the samples that reach furthest beyond, worst first, at most three;
            none from a profile, which does not tell samples apart.
        nonfinite: number of values that are NaN or infinite.
        nonfinite_samples: ids of samples with such values, at most ten; none from a profile.
        verdict: `fail` for a large and certain excess, of samples outside or of values clipped, and
            for any value that is not finite; `warn` for a certain excess, and for a large reach.
    """

    tensor: str
    group: str
    outside_fraction: float
    clipped_fraction: float
    samples_outside_fraction: float
    expected_fraction: float
    p_value: float
    reach: float
    worst_samples: tuple[str, ...]
    verdict: Verdict
    calibration_clipped_fraction: float = 0.0
    clipped_p_value: float = 1.0
    near_threshold_fraction: float = 0.0
    calibration_near_threshold_fraction: float = 0.0
    nonfinite: int = 0
    nonfinite_samples: tuple[str, ...] = ()


class CoverageReport(Record):
    """The test that decides whether the calibrated ranges fit production.

    Attributes:
        verdict: the worst of the rows.
        reasons: a sentence for each tensor that does not pass.
        calibration_samples, heldout_samples: how many; the latter are those of deployment.
        deployment: where these come from: held-out samples that were run, or a profile.
        rows: in graph order.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    calibration_samples: int
    heldout_samples: int
    deployment: Deployment = "held-out samples"
    rows: tuple[CoverageRow, ...]
