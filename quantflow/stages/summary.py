"""`summary.json`: what a run came to, for other programs."""

from __future__ import annotations

from quantflow.artifacts.comparison import (
    Comparison,
    Summary,
    SummaryDeploy,
    SummaryFidelity,
    SummaryOm,
)
from quantflow.artifacts.export_record import ExportRecord, ParityReport
from quantflow.artifacts.om_record import OmRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.record import Verdict, worst
from quantflow.artifacts.run_directory import RunDirectory

NAME = "summary.json"


def summarize(run: RunDirectory) -> Summary | None:
    """Write `summary.json` from what the stages left; None before the comparison has run."""
    if run.manifest("45_compare") is None:
        return None
    comparison = Comparison.read(run.folder("45_compare") / "comparison.json")
    export = ExportRecord.read(run.folder("40_onnx") / "export.json")
    parity = ParityReport.read(run.folder("40_onnx") / "parity.json")
    plan = PrecisionPlan.read(run.folder("40_onnx") / "plan.json")
    om = run.folder("50_om") / "om.json"
    verdicts, reasons = gates(run)
    summary = Summary(
        verdict=worst(*verdicts),
        reasons=tuple(reasons),
        fidelity={
            name: SummaryFidelity(
                cosine_mean=comparison.fidelity[name].cosine_mean,
                cosine_min=comparison.fidelity[name].cosine_min,
            )
            for name in ("fp16", "int8")
        },
        int8_mac_fraction=export.int8_mac_fraction,
        fp16_groups=tuple(plan.fp16_groups),
        fp32_islands=tuple(island.node for island in plan.islands),
        task=comparison.task,
        deploy=SummaryDeploy(
            op_types=export.buckets[0].op_types,
            parity_cosine=parity.cosine_min,
            fidelity_gap=comparison.fidelity_gap,
        ),
        om=SummaryOm(status=OmRecord.read(om).status if om.exists() else "not-converted"),
    )
    summary.write(run.root / NAME)
    return summary


def gates(run: RunDirectory) -> tuple[list[Verdict], list[str]]:
    """Every gate's verdict so far, and a sentence for each that did not pass."""
    verdicts, reasons = list[Verdict](), list[str]()
    if run.manifest("20_ranges") is not None:
        ranges = RangesRecord.read(run.folder("20_ranges") / "ranges.json")
        verdicts.append("fail" if ranges.nonfinite else "pass")
        reasons += [
            f"{x.tensor}: {x.nan} NaN and {x.inf} Inf on {x.split} samples {', '.join(x.samples)}"
            for x in ranges.nonfinite
        ]
    if run.manifest("40_onnx") is not None:
        parity = ParityReport.read(run.folder("40_onnx") / "parity.json")
        verdicts.append(parity.verdict)
        if parity.verdict != "pass":
            reasons.append(f"parity of deploy model and QDQ twin: cosine {parity.cosine_min:.7f}")
    if run.manifest("45_compare") is not None:
        comparison = Comparison.read(run.folder("45_compare") / "comparison.json")
        verdicts.append(comparison.verdict)
        reasons += comparison.reasons
    return verdicts, reasons
