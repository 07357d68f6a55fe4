"""The drift report: every feature against its noise floor, and what follows."""

from __future__ import annotations

from quantflow.artifacts.drift_record import (
    ClassifierTest,
    DriftCounts,
    DriftReport,
    DriftSummary,
    FeatureDrift,
)
from quantflow.artifacts.record import Verdict, worst
from quantflow.calibration.drift.classifier import FOLDS, classifier_test
from quantflow.calibration.drift.comparison import Comparison
from quantflow.calibration.drift.distances import distances, measures
from quantflow.calibration.drift.noise_floor import NoiseFloor, noise_floor
from quantflow.calibration.drift.power import power_of
from quantflow.calibration.drift.reasons import find_reasons
from quantflow.calibration.drift.sample_size import effective_size, needed_sizes, repeat_verdict
from quantflow.calibration.drift.sides import deployment_side
from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.profile.profile import Profile
from quantflow.config import Selection

FAIL_FACTOR = 1.5
"""A feature fails from this many times the effect that it is reported from."""

LEAST_DEPLOYMENT = 10
"""Deployment samples below which there is nothing to split."""


def drift_report(
    calibration: FeatureTable,
    profile: Profile | None,
    *,
    seed: int,
    rows: FeatureTable | None = None,
    selection: Selection = "random",
    candidates: int = 0,
    evaluation_overlap: int = 0,
) -> DriftReport:
    """Judge a calibration set by a deployment profile. The order of the samples does not matter.

    A feature is reported when its effect is larger than any that splits of the deployment sample
    show in any feature, and fails from `FAIL_FACTOR` times that.

    Args:
        calibration: features of the set, at least one sample.
        profile: of the deployment sample, or None without one.
        seed: of the splits.
        rows: the samples of the profile, where they are there: a classifier needs them.
        selection, candidates, evaluation_overlap: for the record.
    """
    calibration = calibration.sorted()
    counts = _counts(calibration, profile, candidates, evaluation_overlap)
    features, floor = list[FeatureDrift](), None
    if profile is not None and profile.samples >= LEAST_DEPLOYMENT and profile.effective > 1:
        floor = noise_floor(profile, counts.calibration_effective, seed=seed)
        features = _features(calibration, profile, floor, counts.calibration_effective)
    classifier = _classifier(calibration, rows.sorted()) if rows is not None else None
    usual = profile.effective / profile.samples if profile is not None else 1.0
    repeats = repeat_verdict(calibration.digests, usual)
    power = power_of(floor, measures(profile)) if floor and profile else None
    reasons = find_reasons(counts, repeats, features)
    verdicts: list[Verdict] = [reason.verdict for reason in reasons]
    return DriftReport(
        verdict=worst(*verdicts),
        reasons=tuple(reason.text for reason in reasons),
        selection=selection,
        counts=counts,
        warn_above=floor.limit if floor else 0.0,
        fail_above=FAIL_FACTOR * floor.limit if floor else 0.0,
        features=tuple(features),
        classifier=classifier,
        power=power,
    )


def summary_of(report: DriftReport) -> DriftSummary:
    """The report in short, for a set that was not kept."""
    return DriftSummary(
        verdict=report.verdict,
        reasons=report.reasons,
        features=report.features[:5],
        classifier=report.classifier,
    )


def _counts(
    calibration: FeatureTable, profile: Profile | None, candidates: int, evaluation_overlap: int
) -> DriftCounts:
    effective = effective_size(calibration.digests)
    production = profile.effective if profile is not None else 0.0
    needed = needed_sizes(effective, production) if profile is not None else (0, 0)
    return DriftCounts(
        candidates=candidates,
        calibration=len(calibration),
        deployment=profile.samples if profile is not None else 0,
        calibration_effective=effective,
        deployment_effective=production,
        calibration_duplicates=len(calibration) - len(set(calibration.digests)),
        evaluation_overlap=evaluation_overlap,
        calibration_repeated=1 - effective / len(calibration),
        deployment_repeated=1 - production / profile.samples if profile is not None else 0.0,
        calibration_needed=needed[0],
        deployment_needed=needed[1],
    )


def _features(
    calibration: FeatureTable, profile: Profile, floor: NoiseFloor, effective: float
) -> list[FeatureDrift]:
    """One entry a feature, by the test with the largest effect; the worst first."""
    comparison = Comparison(calibration, profile, effective)
    found = distances(comparison.side, deployment_side(profile), comparison.centres)
    effects = found / floor.floors
    keys = measures(profile)
    worst_of = dict[str, int]()
    for index, key in enumerate(keys):
        if effects[index] > effects[worst_of.setdefault(key.feature, index)]:
            worst_of[key.feature] = index
    rows = [
        FeatureDrift(
            feature=name,
            test=keys[index].test,
            distance=float(found[index]),
            noise_floor=float(floor.floors[index]),
            effect=float(effects[index]),
            p_value=floor.p_value(float(effects[index])),
            verdict=_verdict(float(effects[index]), floor.limit),
            examples=comparison.examples(keys[index]),
            **comparison.figures(name),
        )
        for name, index in worst_of.items()
    ]
    return sorted(rows, key=lambda row: (-row.effect, row.feature))


def _classifier(calibration: FeatureTable, deployment: FeatureTable) -> ClassifierTest | None:
    if min(len(set(table.digests)) for table in (calibration, deployment)) < FOLDS:
        return None
    keys = [*calibration.digests, *deployment.digests]
    values = calibration.columns(deployment.names)
    found = classifier_test(values, deployment.values, keys)
    return ClassifierTest(auc=found.auc, low=found.low, high=found.high)


def _verdict(effect: float, warn_above: float) -> Verdict:
    if effect > FAIL_FACTOR * warn_above:
        return "fail"
    return "warn" if effect > warn_above else "pass"
