"""Tables of the calibration set against the deployment sample."""

from __future__ import annotations

from collections.abc import Sequence

from quantflow.artifacts.drift_record import (
    ClassifierTest,
    DriftCounts,
    DriftReport,
    DriftSummary,
    FeatureDrift,
)
from quantflow.artifacts.sample_set import SetRecord
from quantflow.report.sheet import Sheet, count_text, number_text, share_text

MOST_EXAMPLES = 8
"""Samples that are named as examples."""


def features_sheet(drift: DriftReport) -> Sheet:
    """Every feature, the largest effect first."""
    rows = [
        (
            x.feature,
            x.verdict,
            f"{x.effect:.2f}",
            f"{x.p_value:.3f}",
            x.test,
            number_text(x.distance),
            number_text(x.noise_floor),
            _cell(x.calibration_median),
            _cell(x.deployment_median),
            _cell(x.shift),
            _cell(x.stability_index),
            ", ".join(x.examples),
        )
        for x in drift.features
    ]
    head = (
        *("feature", "verdict", "effect", "p", "test", "distance", "noise floor"),
        *("median", "of deployment", "shift", "PSI", "least alike"),
    )
    note = (
        "Effect: distance over what splits of the deployment sample show among themselves; warns "
        f"above {drift.warn_above:.2f}, fails above {drift.fail_above:.2f}. p: the chance that any "
        "feature differs so much by itself. Shift: in standard deviations of deployment. PSI: "
        "population stability index."
    )
    note += f" {_repeated(drift.counts)}"
    if drift.power is not None:
        note += (
            f" With so few samples, a usual feature may shift by {drift.power.shift:.2f} standard "
            f"deviations, or {drift.power.share:.0%} of the samples be of another kind, unseen."
        )
    if not rows:
        note = "There was nothing to compare the calibration set with."
    return Sheet("Features of the calibration set", head, "llrrlrrrrrrl", tuple(rows), note)


def _repeated(counts: DriftCounts) -> str:
    ours, theirs = counts.calibration_repeated, counts.deployment_repeated
    return (
        f"Repeats take {share_text(ours, 1)} off the effective number of calibration samples, "
        f"{share_text(theirs, 1)} off deployment's."
    )


def _cell(value: float | None) -> str:
    return "-" if value is None else number_text(value)


def selections_sheet(drift: DriftReport) -> Sheet:
    """The set that was chosen; where it was matched to deployment, a random draw before it."""
    before = [_selection_row("random draw", drift.before)] if drift.before else []
    name = "matched" if drift.selection == "match" else "random draw"
    head = ("selection", "verdict", "worst feature", "effect", "classifier AUC", "95% interval")
    counts = drift.counts
    note = (
        f"{count_text(counts.calibration)} calibration samples, {counts.calibration_effective:.1f} "
        f"effective, of {count_text(counts.candidates)} candidates, against "
        f"{count_text(counts.deployment)} of deployment, {counts.deployment_effective:.1f} "
        "effective. AUC: how well a classifier tells the two apart; 0.5 is chance."
    )
    if drift.selection == "match" and drift.classifier and drift.classifier.auc < 0.5:
        note += " Below 0.5: the set was matched to this very sample."
    rows = (*before, _selection_row(name, drift))
    return Sheet("Calibration set against deployment", head, "lllrrr", rows, note)


def _selection_row(name: str, report: DriftReport | DriftSummary) -> tuple[str, ...]:
    worst: FeatureDrift | None = report.features[0] if report.features else None
    feature = (worst.feature, f"{worst.effect:.2f}") if worst else ("", "-")
    return (name, report.verdict, *feature, *_classifier_cells(report.classifier))


def _classifier_cells(test: ClassifierTest | None) -> tuple[str, str]:
    if test is None:
        return ("-", "-")
    return (f"{test.auc:.2f}", f"{test.low:.2f} to {test.high:.2f}")


def examples_sheet(drift: DriftReport, sets: Sequence[SetRecord]) -> Sheet:
    """The calibration samples that stand out in the features that differ."""
    features = dict[str, list[str]]()
    for feature in drift.features:
        for sample in feature.examples if feature.verdict != "pass" else ():
            features.setdefault(sample, []).append(feature.feature)
    previews = {x.id: x.preview for record in sets for x in record.samples}
    rows = [
        (sample, ", ".join(names), previews.get(sample, ""))
        for sample, names in list(features.items())[:MOST_EXAMPLES]
    ]
    head = ("sample", "stands out in", "text")
    return Sheet("Samples least like deployment", head, "lll", tuple(rows))
