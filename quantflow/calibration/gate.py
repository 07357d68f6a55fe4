"""The gate of the calibration set: chosen from the candidates, judged by a deployment sample."""

from __future__ import annotations

from dataclasses import dataclass

from quantflow.artifacts.drift_record import DriftReport
from quantflow.calibration.drift.report import drift_report, summary_of
from quantflow.calibration.features.table import FeatureTable, shared
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
    deployment: FeatureTable | None,
    count: int,
    *,
    selection: Selection,
    seed: int,
    evaluation_overlap: int = 0,
) -> Choice:
    """Choose the calibration set and judge it.

    Args:
        candidates: in the order they were drawn: the first `count` are a random draw.
        deployment: a sample of what production sends, or None without one.
        count: size of the set.
        selection: `match` selects what looks like deployment, where there are two deployment
            samples at least; its report shows the random draw beside it.
        seed: of the noise floor.
        evaluation_overlap: candidates passed over, since they equal evaluation samples.
    """
    if deployment is not None:
        candidates, deployment = shared(candidates, deployment)

    def judge(rows: list[int], how: Selection) -> DriftReport:
        return drift_report(
            candidates.take(rows),
            deployment,
            seed=seed,
            selection=how,
            candidates=len(candidates),
            evaluation_overlap=evaluation_overlap,
        )

    first = list(range(count))
    if selection == "random" or deployment is None or len(deployment) < 2:
        return Choice(first, judge(first, "random"))
    rows = select_matching(candidates, deployment, count)
    before = summary_of(judge(first, "random"))
    return Choice(rows, judge(rows, "match").model_copy(update={"before": before}))
