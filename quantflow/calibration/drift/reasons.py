"""What is not well with a calibration set, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from quantflow.artifacts.drift_record import DriftCounts, FeatureDrift
from quantflow.artifacts.record import Verdict

SPELLED_OUT = 3
"""Features that get a sentence of their own."""

_ORDER: Final[dict[Verdict, int]] = {"fail": 0, "warn": 1, "pass": 2}


class Reason(NamedTuple):
    """Something that is not well: how bad it is, and a sentence."""

    verdict: Verdict
    text: str


def find_reasons(
    counts: DriftCounts,
    repeats: Verdict,
    features: Sequence[FeatureDrift],
) -> list[Reason]:
    """Everything that is not well, the worst first.

    Args:
        counts: numbers of samples.
        repeats: verdict on samples that repeat others.
        features: the worst first.
    """
    found = [
        *_of_features(features),
        *_of_repeats(counts, repeats),
        *_of_counts(counts),
    ]
    return sorted(found, key=lambda reason: _ORDER[reason.verdict])


def _of_features(features: Sequence[FeatureDrift]) -> Iterator[Reason]:
    notable = [row for row in features if row.verdict != "pass"]
    for row in notable[:SPELLED_OUT]:
        see = f"; see {', '.join(row.examples)}" if row.examples else ""
        yield Reason(
            row.verdict,
            f"{row.feature}: unlike deployment, {_how(row)}{row.test} distance "
            f"{row.distance:.3f}, {row.effect:.1f} times the noise floor{see}",
        )
    rest = notable[SPELLED_OUT:]
    if rest:
        names = ", ".join(row.feature for row in rest[:SPELLED_OUT])
        more = ", ..." if len(rest) > SPELLED_OUT else ""
        noun = "feature" if len(rest) == 1 else "features"
        yield Reason(rest[0].verdict, f"{len(rest)} more {noun} too: {names}{more}")


def _how(row: FeatureDrift) -> str:
    """The change in the feature's own unit, where it has one."""
    if row.test == "outside" and row.outside_fraction:
        return f"{row.outside_fraction:.0%} of the samples lie beyond all of deployment's, "
    if row.test == "uncovered" and row.uncovered_fraction:
        share = f"{row.uncovered_fraction:.0%}"
        return f"{share} of deployment's samples lie beyond all of the calibration set's, "
    if row.calibration_median is None:
        return ""
    medians = [f"{x:.4g}" for x in (row.calibration_median, row.deployment_median)]
    return f"median {medians[0]} against {medians[1]}, " if medians[0] != medians[1] else ""


def _of_repeats(counts: DriftCounts, verdict: Verdict) -> Iterator[Reason]:
    if verdict != "pass":
        text = (
            f"{counts.calibration_duplicates} of {counts.calibration} calibration samples repeat "
            f"others: the effective sample size is {counts.calibration_effective:.1f}"
        )
        yield Reason(verdict, text)


def _of_counts(counts: DriftCounts) -> Iterator[Reason]:
    if counts.evaluation_overlap:
        text = (
            f"{counts.evaluation_overlap} candidates equal evaluation samples; they were left out, "
            "but accuracy seems to be measured on the data that the candidates come from"
        )
        yield Reason("warn", text)
    if not counts.deployment:
        text = "there is no deployment sample, so nothing shows that the set is like production"
        yield Reason("warn", text)
    if counts.calibration_needed or counts.deployment_needed:
        yield Reason("warn", f"too few samples to tell: {'; '.join(_too_few(counts))}")


def _too_few(counts: DriftCounts) -> Iterator[str]:
    """What there is, what it takes, and the setting to raise, for every set that is too small."""
    sets = (
        ("calibration", counts.calibration_effective, counts.calibration_needed, "set.samples"),
        (
            "deployment",
            counts.deployment_effective,
            counts.deployment_needed,
            "set.deployment_samples",
        ),
    )
    for name, there, needed, key in sets:
        if needed:
            yield (
                f"{needed} different {name} samples are needed, where there are {there:.4g}: raise "
                f"{key}{', without --limit' if name == 'calibration' else ''}"
            )
