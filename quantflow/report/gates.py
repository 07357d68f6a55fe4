"""The gates of a run: what each stage's result says about going on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quantflow.artifacts.comparison import Comparison
from quantflow.artifacts.coverage_record import CoverageReport
from quantflow.artifacts.diagnosis_record import DiagnosisRecord
from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.export_record import ParityReport
from quantflow.artifacts.hygiene_record import HygieneReport
from quantflow.artifacts.om_record import OmRecord, OmStatus
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.record import Verdict, worst
from quantflow.artifacts.sweep_record import SweepRecord
from quantflow.errors import ExitCode
from quantflow.report.artifacts import Artifacts
from quantflow.report.measures import misses
from quantflow.report.sheet import share_text

SPELLED_OUT = 5
"""Layers that a gate names one by one."""

OM_EXIT_CODES: Final[dict[OmStatus, ExitCode]] = {
    "converted": ExitCode.OK,
    "not-converted": ExitCode.ENVIRONMENT,
    "refused": ExitCode.USAGE,
    "failed": ExitCode.ATC_FAILED,
}
"""What the conversions come to: a refusal is one of configuration or model, atc never started."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate.

    Attributes:
        stage: folder of the stage it belongs to.
        name: what is judged.
        verdict: how it came out.
        reasons: one sentence for everything that did not pass.
        fix: what to do about it, or empty.
    """

    stage: str
    name: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    fix: str = ""


def all_gates(artifacts: Artifacts) -> list[Gate]:
    """The gates of every stage that has run, in pipeline order."""
    gates: list[Gate] = []
    if artifacts.drift is not None:
        gates.append(drift_gate(artifacts.drift))
    if artifacts.hygiene is not None:
        gates.append(hygiene_gate(artifacts.hygiene))
    if artifacts.ranges is not None:
        gates.append(finite_gate(artifacts.ranges, broken_outputs(artifacts)))
    if artifacts.coverage is not None:
        gates.append(coverage_gate(artifacts.coverage))
    if artifacts.sweep is not None:
        gates.append(plan_gate(artifacts.sweep, edited=artifacts.plan_edited))
    if artifacts.parity is not None:
        gates.append(parity_gate(artifacts.parity))
    if artifacts.comparison is not None:
        gates.append(accuracy_gate(artifacts.comparison))
    elif artifacts.diagnosis is not None and artifacts.diagnosis.misses_budget:
        gates.append(diagnosis_gate(artifacts.diagnosis))
    return gates


def gates_of(artifacts: Artifacts, stage: str) -> list[Gate]:
    """The gates of one stage, given by its folder."""
    return [gate for gate in all_gates(artifacts) if gate.stage == stage]


def hygiene_gate(hygiene: HygieneReport) -> Gate:
    """No set repeats itself, leaks into the evaluation or holds samples with nothing in them."""
    reasons = tuple(x.text for x in hygiene.findings if x.verdict != "pass")
    fix = "look at `quantflow show hygiene`; mend or remove these records in the sources"
    return Gate("10_set", "hygiene", hygiene.verdict, reasons, fix)


def drift_gate(drift: DriftReport) -> Gate:
    """The calibration set looks like deployment."""
    other = "" if drift.selection == "match" else ', or set `selection = "match"`'
    fix = f"look at `quantflow show drift`; give [set.candidates] more like deployment{other}"
    return Gate("10_set", "drift", drift.verdict, drift.reasons, fix)


def broken_outputs(artifacts: Artifacts) -> list[str]:
    """The model's own outputs that hold NaN or Inf in float32."""
    if artifacts.fp16 is None or artifacts.model is None:
        return []
    outputs = {info.name for info in artifacts.model.outputs}
    return [x.tensor for x in artifacts.fp16.tensors if not x.finite and x.tensor in outputs]


def finite_gate(ranges: RangesRecord, outputs: Sequence[str] = ()) -> Gate:
    """Every value that was seen is finite, the model's outputs in float32 included."""
    reasons = tuple(
        f"{entry.tensor}: {entry.nan} NaN and {entry.inf} Inf on the "
        f"{'deployment' if entry.split == 'heldout' else entry.split} samples"
        + (f", in {', '.join(entry.samples)}" if entry.samples else "")
        for entry in ranges.nonfinite
    )
    reasons += tuple(f"output {name!r} is not finite in float32" for name in outputs)
    fix = "mend or remove the samples with NaN or Inf, or the layer that makes them"
    return Gate("20_ranges", "finite values", "fail" if reasons else "pass", reasons, fix)


def coverage_gate(coverage: CoverageReport) -> Gate:
    """Deployment stays inside the calibrated ranges."""
    reasons, rest = coverage.reasons[:SPELLED_OUT], len(coverage.reasons[SPELLED_OUT:])
    more = (f"and {rest} layers more, which `quantflow show coverage` lists",) if rest else ()
    fix = "add samples like those in `quantflow show coverage` to [set.candidates]"
    return Gate("20_ranges", "coverage", coverage.verdict, (*reasons, *more), fix)


def plan_gate(sweep: SweepRecord, *, edited: bool) -> Gate:
    """The plan meets the budget on samples that the search did not use.

    Its reasons are what stands in the way, then by how much each limit is missed.

    Args:
        sweep: what stage 3 found.
        edited: whether the plan was changed since, so that what was found is of another one.
    """
    if edited:
        since = "it was verified" if sweep.verified else "the sweep"
        reason = f"the plan was edited after {since}; the comparison judges it"
        return Gate("30_sweep", "plan", "warn", (reason,))
    if sweep.verified:
        return Gate("30_sweep", "plan", "pass")
    fix = "edit 30_sweep/plan.json, or relax plan.pins or the budget: see `quantflow show curve`"
    if sweep.sides:
        fix += " and `quantflow show sides`"
    ours = [x for x in sweep.policies if x.policy == sweep.policy]
    by = tuple(text for result in ours for text in misses(result, sweep))
    return Gate("30_sweep", "plan", "fail", (*sweep.reasons, *by), fix)


def parity_gate(parity: ParityReport) -> Gate:
    """The deploy model computes, layer by layer, what the QDQ twin does."""
    reasons = tuple(
        f"{x.layer}: cosine {x.cosine:.7f}, accumulators {'equal' if x.int32_exact else 'differ'}, "
        f"{share_text(x.int8_equal_fraction, 5)} of int8 inputs equal"
        for x in sorted(parity.layers, key=lambda x: x.cosine)
        if x.cosine < 0.99999 or not x.int32_exact or x.int8_equal_fraction < 0.99999
    )
    fix = "run `quantflow doctor`: if its int8 probe passes, this is a bug"
    return Gate(
        "40_onnx", "parity", parity.verdict, reasons if parity.verdict != "pass" else (), fix
    )


def accuracy_gate(comparison: Comparison) -> Gate:
    """The int8 model reaches the budget."""
    fix = "run `quantflow diagnose`, which names the cause; `quantflow show layers` has the layers"
    return Gate("45_compare", "accuracy", comparison.verdict, comparison.reasons, fix)


def diagnosis_gate(diagnosis: DiagnosisRecord) -> Gate:
    """INT8 misses the budget on some evaluation samples; the comparison decides by all of them."""
    fix = diagnosed_step(diagnosis)
    return Gate("46_diagnosis", "diagnosis", "fail", (diagnosis.sentence,), fix)


def diagnosed_step(diagnosis: DiagnosisRecord) -> str:
    """What a diagnosis says to do about the loss."""
    return f"{diagnosis.next_step} (the diagnosis: {diagnosis.finding})"


def overall(gates: list[Gate]) -> Verdict:
    """The worst verdict."""
    verdicts: list[Verdict] = [gate.verdict for gate in gates]
    return worst(*verdicts)


def exit_code(gates: list[Gate], om: OmRecord | None) -> ExitCode:
    """Exit status: a failed gate first, then the conversion's."""
    if overall(gates) == "fail":
        return ExitCode.GATE_FAILED
    return OM_EXIT_CODES[om.status] if om is not None else ExitCode.OK
