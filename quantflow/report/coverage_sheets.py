"""The table of range coverage: which layers see more in deployment than calibration saw."""

from __future__ import annotations

from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.report.sheet import VERDICT_ORDER, Sheet, number_text, share_text


def coverage_sheet(coverage: CoverageReport) -> Sheet:
    """Coverage of every tensor, the worst first."""
    ordered = sorted(
        coverage.rows,
        key=lambda x: (VERDICT_ORDER[x.verdict], x.p_value, -x.samples_outside_fraction),
    )
    rows = [
        (
            x.group,
            x.verdict,
            share_text(x.samples_outside_fraction),
            share_text(x.expected_fraction),
            number_text(x.p_value),
            f"{x.reach:.2f}",
            share_text(x.outside_fraction),
            share_text(x.clipped_fraction),
            ", ".join(x.worst_samples),
        )
        for x in ordered
    ]
    head = (
        *("group", "verdict", "samples outside", "expected", "p", "reach", "values outside"),
        *("values clipped", "worst samples"),
    )
    note = (
        f"{coverage.heldout_samples} held-out deployment samples against the extremes of "
        f"{coverage.calibration_samples} calibration samples. p is the chance of so many samples "
        "outside when both are alike, corrected for the number of layers."
    )
    return Sheet("Range coverage", head, "llrrrrrrl", tuple(rows), note)
