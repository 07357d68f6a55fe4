"""What is not well with the coverage of a tensor, in a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from quantflow.artifacts.coverage_record import CoverageRow
from quantflow.ranges.saturation import CERTAIN, LEAST_EXCESS


def reason_of(row: CoverageRow) -> str:
    """Everything that speaks against a row that does not pass, the worst first."""
    return f"{row.group}: {'; '.join(_parts(row))}"


def _parts(row: CoverageRow) -> Iterator[str]:
    if row.nonfinite:
        named = f", in {', '.join(row.nonfinite_samples)}" if row.nonfinite_samples else ""
        noun = "value is" if row.nonfinite == 1 else "values are"
        yield f"{row.nonfinite} {noun} NaN or Inf on the deployment samples{named}"
    excess = row.clipped_fraction - row.calibration_clipped_fraction
    saturated = row.clipped_p_value < CERTAIN and excess >= LEAST_EXCESS
    if row.p_value < CERTAIN or row.reach > 1 or not (row.nonfinite or saturated):
        yield (
            f"{row.samples_outside_fraction:.0%} of the deployment samples leave the calibrated "
            f"range (expected {row.expected_fraction:.0%}), up to {row.reach:.3g} times it"
        )
    if saturated:
        yield (
            f"the range in force clips {row.clipped_fraction:.2%} of the values "
            f"({row.calibration_clipped_fraction:.2%} at calibration)"
        )
