"""`summary.json`: what a run came to, or has come to so far, for other programs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Literal

from quantflow.artifacts.comparison import (
    Comparison,
    Summary,
    SummaryDeploy,
    SummaryFidelity,
    SummaryGate,
    SummaryOm,
    SummaryPlan,
)
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.errors import QuantflowError
from quantflow.report.artifacts import SUMMARY, Artifacts, read_artifacts
from quantflow.report.gates import all_gates, overall


@contextmanager
def refreshed(run: RunDirectory) -> Generator[None]:
    """Bring `summary.json` up to date where an error ends the work, since stages may have run."""
    try:
        yield
    except BaseException:
        with suppress(QuantflowError):  # a damaged record; the error under way tells more
            refresh_summary(run)
        raise


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
    """What the stages have come to so far; None before any has run."""
    if not (found.model or found.sets):
        return None
    gates, plan, close = all_gates(found), found.plan, found.comparison
    return Summary(
        verdict=overall(gates),
        reasons=tuple(reason for gate in gates for reason in gate.reasons),
        fidelity=_fidelity(close) if close else {},
        int8_mac_fraction=found.export.int8_mac_fraction if found.export else None,
        fp16_groups=tuple(plan.fp16_groups) if plan else (),
        fp32_islands=tuple(island.node for island in plan.islands) if plan else (),
        task=close.task if close else {},
        deploy=_deploy(found),
        om=SummaryOm(status=found.om.status) if found.om else None,
        drift=SummaryGate(verdict=found.drift.verdict) if found.drift else None,
        coverage=SummaryGate(verdict=found.coverage.verdict) if found.coverage else None,
        plan=_plan(found),
        notes=found.model.notes if found.model else (),
    )


def _fidelity(comparison: Comparison) -> dict[Literal["fp16", "int8"], SummaryFidelity]:
    return {
        name: SummaryFidelity(
            cosine_mean=comparison.fidelity[name].cosine_mean,
            cosine_min=comparison.fidelity[name].cosine_min,
        )
        for name in ("fp16", "int8")
    }


def _deploy(found: Artifacts) -> SummaryDeploy | None:
    if found.export is None or found.parity is None:
        return None
    return SummaryDeploy(
        op_types=found.export.buckets[0].op_types,
        parity_cosine=found.parity.cosine_min,
        fidelity_gap=found.comparison.fidelity_gap if found.comparison else None,
    )


def _plan(found: Artifacts) -> SummaryPlan | None:
    if found.plan is None:
        return None
    verified = found.sweep is not None and found.sweep.verified and not found.plan_edited
    return SummaryPlan(policy=found.plan.policy, verified=verified)
