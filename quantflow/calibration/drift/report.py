"""The drift report: every feature against its noise floor, the classifier, and what follows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.drift_record import (
    ClassifierTest,
    DriftCounts,
    DriftReport,
    DriftSummary,
    FeatureDrift,
)
from quantflow.artifacts.record import Verdict, worst
from quantflow.calibration.drift.classifier import FOLDS, classifier_test
from quantflow.calibration.drift.distances import COUNT_TEST, Measure, distances, measures
from quantflow.calibration.drift.jensen_shannon import jensen_shannon
from quantflow.calibration.drift.noise_floor import NoiseFloor, noise_floor
from quantflow.calibration.drift.reasons import find_reasons
from quantflow.calibration.drift.sample_size import effective_size, needed_sizes, repeat_verdict
from quantflow.calibration.features.table import FeatureTable
from quantflow.config import Selection

FAIL_FACTOR = 1.5
"""A feature fails from this many times the effect that it is reported from."""

AUC_WARN, AUC_FAIL = 0.6, 0.8
"""The classifier warns or fails when its interval lies above."""

LEAST_DEPLOYMENT = 10
"""Deployment samples below which there is nothing to split."""

EXAMPLES = 3


def drift_report(
    calibration: FeatureTable,
    deployment: FeatureTable | None,
    *,
    seed: int,
    selection: Selection = "random",
    candidates: int = 0,
    evaluation_overlap: int = 0,
) -> DriftReport:
    """Judge a calibration set by a deployment sample. The order of the samples does not matter.

    A feature is reported when its effect is larger than any that splits of the deployment sample
    show in any feature, and fails from `FAIL_FACTOR` times that.

    Args:
        calibration: features of the set, at least one sample.
        deployment: the same features of the deployment sample, or None without one.
        seed: of the splits.
        selection, candidates, evaluation_overlap: for the record.
    """
    calibration = calibration.sorted()
    deployment = deployment.sorted() if deployment is not None else None
    counts = _counts(calibration, deployment, candidates, evaluation_overlap)
    features, warn_above = list[FeatureDrift](), 0.0
    if deployment is not None and len(deployment) >= LEAST_DEPLOYMENT:
        sizes = counts.calibration_effective, counts.deployment_effective
        floor = noise_floor(deployment, *sizes, seed=seed)
        features = _features(calibration, deployment, floor)
        warn_above = floor.limit
    classifier = _classifier(calibration, deployment) if deployment is not None else None
    repeats = repeat_verdict(calibration.digests, deployment.digests if deployment else ())
    reasons = find_reasons(counts, repeats, features, classifier)
    verdicts: list[Verdict] = [reason.verdict for reason in reasons]
    return DriftReport(
        verdict=worst(*verdicts),
        reasons=tuple(reason.text for reason in reasons),
        selection=selection,
        counts=counts,
        warn_above=warn_above,
        fail_above=FAIL_FACTOR * warn_above,
        features=tuple(features),
        classifier=classifier,
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
    calibration: FeatureTable,
    deployment: FeatureTable | None,
    candidates: int,
    evaluation_overlap: int,
) -> DriftCounts:
    effective = effective_size(calibration.digests)
    production = effective_size(deployment.digests) if deployment is not None else 0.0
    needed = needed_sizes(effective, production) if deployment is not None else (0, 0)
    return DriftCounts(
        candidates=candidates,
        calibration=len(calibration),
        deployment=len(deployment) if deployment is not None else 0,
        calibration_effective=effective,
        deployment_effective=production,
        calibration_duplicates=len(calibration) - len(set(calibration.digests)),
        evaluation_overlap=evaluation_overlap,
        calibration_needed=needed[0],
        deployment_needed=needed[1],
    )


def _features(
    calibration: FeatureTable, deployment: FeatureTable, floor: NoiseFloor
) -> list[FeatureDrift]:
    """One entry a feature, by the test with the largest effect; the worst first."""
    found = distances(calibration, deployment)
    effects = found / floor.floors
    worst_of = dict[str, int]()
    keys = measures(calibration)
    for index, key in enumerate(keys):
        best = worst_of.setdefault(key.feature, index)
        if effects[index] > effects[best]:
            worst_of[key.feature] = index
    rows = [
        FeatureDrift(
            feature=name,
            test=keys[index].test,
            distance=float(found[index]),
            noise_floor=float(floor.floors[index]),
            effect=float(effects[index]),
            verdict=_verdict(float(effects[index]), floor.limit, FAIL_FACTOR * floor.limit),
            examples=_examples(calibration, deployment, keys[index]),
        )
        for name, index in worst_of.items()
    ]
    return sorted(rows, key=lambda row: (-row.effect, row.feature))


def _examples(
    calibration: FeatureTable, deployment: FeatureTable, measure: Measure
) -> tuple[str, ...]:
    """Ids of the samples that are furthest from deployment in one feature."""
    far: NDArray[np.float64]
    if measure.test == COUNT_TEST:
        counts = calibration.counts[measure.feature]
        far = jensen_shannon(counts, deployment.counts[measure.feature].sum(axis=0)[None])
    else:
        column = calibration.names.index(measure.feature)
        centre = np.median(deployment.values[:, column])
        far = np.abs(calibration.values[:, column] - centre)
    order = np.argsort(-far, kind="stable")[:EXAMPLES]
    return tuple(calibration.ids[int(i)] for i in order)


def _classifier(calibration: FeatureTable, deployment: FeatureTable) -> ClassifierTest | None:
    if min(len(set(table.digests)) for table in (calibration, deployment)) < FOLDS:
        return None
    keys = [*calibration.digests, *deployment.digests]
    found = classifier_test(calibration.values, deployment.values, keys)
    return ClassifierTest(
        auc=found.auc,
        low=found.low,
        high=found.high,
        verdict=_verdict(found.low, AUC_WARN, AUC_FAIL),
        warn_above=AUC_WARN,
        fail_above=AUC_FAIL,
    )


def _verdict(value: float, warn_above: float, fail_above: float) -> Verdict:
    if value > fail_above:
        return "fail"
    return "warn" if value > warn_above else "pass"
