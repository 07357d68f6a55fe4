"""`summary.json`: what a run came to, for other programs."""

from __future__ import annotations

from dataclasses import replace

from quantflow.artifacts.comparison import (
    Summary,
    SummaryDeploy,
    SummaryFidelity,
    SummaryGate,
    SummaryOm,
    SummaryPlan,
)
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.report.artifacts import SUMMARY, Artifacts, read_artifacts
from quantflow.report.gates import all_gates, overall


def refresh_summary(run: RunDirectory) -> Artifacts:
    """Write `summary.json` from what is current, or remove one of an earlier state.

    Returns:
        The run's artifacts, the summary included.
    """
    artifacts, path = read_artifacts(run), run.root / SUMMARY
    summary = summarize(artifacts)
    if summary is None:
        path.unlink(missing_ok=True)
    else:
        summary.write(path)
    return replace(artifacts, summary=summary)


def summarize(found: Artifacts) -> Summary | None:
    """What the stages came to; None before the comparison has run."""
    if not (found.drift and found.coverage and found.plan and found.export and found.parity):
        return None
    if found.comparison is None:
        return None
    gates = all_gates(found)
    return Summary(
        verdict=overall(gates),
        reasons=tuple(reason for gate in gates for reason in gate.reasons),
        fidelity={
            name: SummaryFidelity(
                cosine_mean=found.comparison.fidelity[name].cosine_mean,
                cosine_min=found.comparison.fidelity[name].cosine_min,
            )
            for name in ("fp16", "int8")
        },
        int8_mac_fraction=found.export.int8_mac_fraction,
        fp16_groups=tuple(found.plan.fp16_groups),
        fp32_islands=tuple(island.node for island in found.plan.islands),
        task=found.comparison.task,
        deploy=SummaryDeploy(
            op_types=found.export.buckets[0].op_types,
            parity_cosine=found.parity.cosine_min,
            fidelity_gap=found.comparison.fidelity_gap,
        ),
        om=SummaryOm(status=found.om.status if found.om else "not-converted"),
        drift=SummaryGate(verdict=found.drift.verdict),
        coverage=SummaryGate(verdict=found.coverage.verdict),
        plan=SummaryPlan(
            policy=found.plan.policy,
            verified=found.sweep is not None and found.sweep.verified and not found.plan_edited,
        ),
    )
