"""What `quantflow watch` finds: do the calibration set and its ranges still hold?"""

from __future__ import annotations

from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.hygiene_record import HygieneReport
from quantflow.artifacts.record import Record, Verdict


class WatchReport(Record):
    """A calibrated run against what production sends now.

    Attributes:
        verdict: the worst of all reports.
        reasons: one sentence for everything that is not well: ranges first, then features.
        source: of the production samples.
        samples: how many.
        drift: the calibration set against them.
        coverage: their activations against the ranges; None when a profile holds none of this
            model.
        hygiene: what is wrong with production samples by themselves: repeats, and those that were
            left out, as they are empty or not finite; None for a profile, which has no samples.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    source: str
    samples: int
    drift: DriftReport
    coverage: CoverageReport | None
    hygiene: HygieneReport | None = None
