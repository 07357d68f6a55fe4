"""The gate of the calibration set: chosen from the candidates, judged by a deployment profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quantflow.artifacts.drift_record import DriftReport
from quantflow.calibration.drift.report import drift_report, summary_of
from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.profile.profile import Profile
from quantflow.calibration.select import select_matching
from quantflow.config import Selection


@dataclass(frozen=True, slots=True)
class Choice:
    """A calibration set.

    Attributes:
        rows: positions of its samples among the candidates, in order.
        report: what the gate says about it.
    """

    rows: list[int]
    report: DriftReport


def choose(
    candidates: FeatureTable,
    profile: Profile | None,
    count: int,
    *,
    selection: Selection,
    seed: int,
    pool: Sequence[int] | None = None,
    looked_at: int = 0,
    deployment: FeatureTable | None = None,
    evaluation_overlap: int = 0,
) -> Choice:
    """Choose the calibration set and judge it.

    Args:
        candidates: in the order they were drawn: the first `count` are a random draw.
        profile: of the deployment sample, or None without one.
        count: size of the set.
        selection: `match` selects what looks like deployment, where the profile is of two different
            samples at least; its report shows the random draw beside it.
        seed: of the noise floor.
        pool: positions of the candidates that may be selected, or None for all.
        looked_at: how many candidates these were drawn from, where they are a shortlist.
        deployment: the deployment sample, where it is there, for the classifier.
        evaluation_overlap: candidates passed over, since they equal evaluation samples.
    """

    def judge(rows: Sequence[int], how: Selection) -> DriftReport:
        return drift_report(
            candidates.take(rows),
            profile,
            seed=seed,
            rows=deployment,
            selection=how,
            candidates=max(looked_at, len(candidates)),
            evaluation_overlap=evaluation_overlap,
        )

    first = list(range(count))
    if selection == "random" or profile is None or profile.effective <= 1:
        return Choice(first, judge(first, "random"))
    places = list(range(len(candidates))) if pool is None else list(pool)
    chosen = select_matching(candidates.take(places), profile.joint, count)
    rows = [places[i] for i in chosen]
    before = summary_of(judge(first, "random"))
    return Choice(rows, judge(rows, "match").model_copy(update={"before": before}))
