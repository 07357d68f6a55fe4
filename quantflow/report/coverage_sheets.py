"""Tables of range coverage: do ranges fit deployment, and would another set give others?"""

from __future__ import annotations

from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.stability_record import StabilityReport
from quantflow.report.sheet import VERDICT_ORDER, Sheet, count_text, number_text, share_text


def coverage_sheet(coverage: CoverageReport) -> Sheet:
    """Coverage of every tensor, the worst first."""
    ordered = sorted(
        coverage.rows,
        key=lambda x: (
            VERDICT_ORDER[x.verdict],
            not x.nonfinite,
            min(x.p_value, x.clipped_p_value),
            -x.samples_outside_fraction,
        ),
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
            share_text(x.calibration_clipped_fraction),
            share_text(x.near_threshold_fraction),
            share_text(x.calibration_near_threshold_fraction),
            count_text(x.nonfinite),
            ", ".join(x.nonfinite_samples[:3] or x.worst_samples),
        )
        for x in ordered
    ]
    head = (
        *("group", "verdict", "samples outside", "expected", "p", "reach", "values outside"),
        *("clipped", "clipped then", "near", "near then", "NaN, Inf", "worst samples"),
    )
    held = (
        f"{coverage.heldout_samples} deployment samples, by their profile,"
        if coverage.deployment == "profile"
        else f"{coverage.heldout_samples} held-out deployment samples"
    )
    note = (
        f"{held} against the extremes of "
        f"{coverage.calibration_samples} calibration samples. p is the chance of so many samples "
        "outside when both are alike, corrected for the number of layers. Clipped: values beyond "
        "the range in force; near: within 10% of its bounds, inside; then: at calibration."
    )
    return Sheet("Range coverage", head, "llrrrrrrrrrrl", tuple(rows), note)


def stability_sheet(stability: StabilityReport) -> Sheet:
    """How far the range of every tensor moves between subsets, the least stable first."""
    ordered = sorted(stability.rows, key=lambda x: (-x.expected, *(-y for y in x.spreads)))
    rows = [
        (
            x.group,
            *(share_text(spread, 1) for spread in x.spreads),
            share_text(x.expected, 1),
            _enough_text(x.enough, stability.samples),
        )
        for x in ordered
    ]
    sizes = (*map(count_text, stability.sizes), f"all {count_text(stability.samples)}")
    head = ("group", *(f"with {size}" for size in sizes), f"{stability.threshold:.0%} from")
    align = "l" + "r" * (len(head) - 1)
    note = (
        "How much the width of a tensor's range differs between two random subsets of so many "
        f"samples, at most, in 95 of 100 draws; with all {stability.samples} it is extrapolated. "
        "Fresh samples may move it further: what the set lacks, no subset shows. "
        f"Medians: {', '.join(share_text(x, 1) for x in stability.median)}."
    )
    said = "".join(f" {reason[0].upper()}{reason[1:]}." for reason in stability.reasons)
    return Sheet("Range stability", head, align, tuple(rows), note + said)


def _enough_text(enough: int | None, samples: int) -> str:
    return f"more than {count_text(samples)}" if enough is None else count_text(enough)
