"""What stage 1 writes about the calibration set: does it look like deployment?"""

from __future__ import annotations

from typing import Literal

from quantflow.artifacts.record import Record, Verdict
from quantflow.config import Selection

DriftTest = Literal[
    "ks", "wasserstein", "outside", "uncovered", "jensen-shannon", "chi-square", "mmd"
]


class FeatureDrift(Record):
    """One feature of the calibration set against the same feature of the deployment sample.

    Attributes:
        feature: its name, such as ``text.newlines``.
        test: the test that shows the largest effect.
        distance: between the two sets: `ks`, `jensen-shannon` and `chi-square` 0-1, `wasserstein`
            0-2 in standard deviations of both sets together, `mmd` 0 to about 1.4; `outside` is the
            root of how many bits it surprises that so many calibration samples lie beyond all of
            deployment's, `uncovered` that so many of deployment's lie beyond all of calibration's.
        noise_floor: the distance that splits of the deployment sample stay below in 95 of 100
            cases, at the sizes of these two sets.
        effect: distance / noise_floor.
        p_value: probability that chance alone makes any of all features differ so much, 0-1.
        verdict: by the report's `warn_above` and `fail_above`.
        calibration_median, deployment_median: in the unit of the feature; None for a feature that
            is not one number a sample.
        shift: mean of the calibration set less that of deployment, in standard deviations of
            deployment; None where there is no median, or no deviation.
        stability_index: population stability index over tenths of deployment; None likewise.
        outside_fraction: share of the calibration samples beyond all of deployment's, 0-1; None
            likewise.
        uncovered_fraction: share of the deployment samples beyond all of calibration's, likewise.
        examples: ids of the calibration samples that are least like deployment, at most three; none
            where it is the deployment samples that stand out.
    """

    feature: str
    test: DriftTest
    distance: float
    noise_floor: float
    effect: float
    p_value: float
    verdict: Verdict
    calibration_median: float | None
    deployment_median: float | None
    shift: float | None
    stability_index: float | None
    outside_fraction: float | None
    examples: tuple[str, ...]
    uncovered_fraction: float | None = None


class ClassifierTest(Record):
    """How well a classifier that sees all scalar features tells the two sets apart.

    It needs every sample, which a profile does not hold, so it does not count for the verdict.

    Attributes:
        auc: probability that it takes a calibration sample for more calibration-like than a
            deployment sample, 0-1: 0.5 for sets that cannot be told apart, less for a set that was
            matched to this very deployment sample.
        low, high: 95% interval.
    """

    auc: float
    low: float
    high: float


class Power(Record):
    """What the gate would not have seen, so few samples given.

    Attributes:
        share: of the calibration samples, 0-1, that could be of another kind in a feature without a
            warning, by the Kolmogorov-Smirnov distance.
        shift: of the mean of a feature, in standard deviations, that would likely pass unseen.
    """

    share: float
    shift: float


class DriftCounts(Record):
    """Numbers of samples.

    Attributes:
        candidates: that were looked at.
        calibration, deployment: in the two sets.
        calibration_effective, deployment_effective: how many different samples would average as
            steadily: fewer than there are when some repeat others.
        calibration_duplicates: samples that equal an earlier one.
        calibration_repeated, deployment_repeated: duplicate rate, 0-1: the share of samples that
            repeats take away from the effective number.
        evaluation_overlap: candidates passed over, since the evaluation set holds equal ones.
        calibration_needed, deployment_needed: numbers from which the sets could be told apart; 0
            when there are enough.
    """

    candidates: int
    calibration: int
    deployment: int
    calibration_effective: float
    deployment_effective: float
    calibration_duplicates: int
    evaluation_overlap: int
    calibration_repeated: float = 0.0
    deployment_repeated: float = 0.0
    calibration_needed: int = 0
    deployment_needed: int = 0


class DriftSummary(Record):
    """A drift report in short: what a random draw of the candidates would have been.

    Attributes:
        verdict, reasons, classifier: as in `DriftReport`.
        features: the five worst.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    features: tuple[FeatureDrift, ...]
    classifier: ClassifierTest | None


class DriftReport(Record):
    """`10_set/drift.json`.

    Attributes:
        verdict: the worst of all that was tested.
        reasons: one sentence for everything that is not well, the worst first.
        selection: how the calibration set was chosen from the candidates.
        counts: numbers of samples.
        warn_above, fail_above: effects from which a feature is reported and from which it fails:
            the first is the largest effect that any feature shows in any split of the deployment
            sample; both are 0 without a test.
        features: the worst first; empty without a deployment sample.
        classifier: None when one of the sets holds too few different samples, or when only a
            profile of deployment is there.
        power: None without a test.
        before: a random draw of the same candidates, when the set was selected to match.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    selection: Selection
    counts: DriftCounts
    warn_above: float
    fail_above: float
    features: tuple[FeatureDrift, ...]
    classifier: ClassifierTest | None
    power: Power | None
    before: DriftSummary | None = None
