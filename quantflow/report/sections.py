"""The sections of the HTML page: which tables and plots stand under which heading."""

from __future__ import annotations

from collections.abc import Iterator

from quantflow.report import (
    comparison_sheets,
    diagnosis_sheets,
    export_sheets,
    model_sheets,
    optimize_sheets,
    provenance_sheets,
)
from quantflow.report.artifacts import Artifacts
from quantflow.report.calibration_sections import range_sections, set_sections
from quantflow.report.comparison_sections import comparison_sections
from quantflow.report.gates import all_gates
from quantflow.report.plan_sections import plan_sections
from quantflow.report.section import Section, section


def sections(artifacts: Artifacts) -> Iterator[Section]:
    """The sections that have something to say, in the page's order."""
    return (found for found in _all_sections(artifacts) if found.sheets)


def _all_sections(artifacts: Artifacts) -> Iterator[Section]:
    gates = all_gates(artifacts)
    if gates:
        yield section("gates", "Gates", comparison_sheets.gates_sheet(gates))
    if artifacts.diagnosis is not None:
        sheet = diagnosis_sheets.experiments_sheet(artifacts.diagnosis)
        yield section("diagnosis", "Where the loss comes from", sheet)
    yield from set_sections(artifacts)
    yield from range_sections(artifacts)
    if artifacts.optimize is not None and artifacts.optimize.passes:
        sheets = optimize_sheets.all_sheets(artifacts.optimize)
        yield section("optimize", "Optimization", *sheets)
    yield from plan_sections(artifacts)
    yield from comparison_sections(artifacts)
    yield from _export_sections(artifacts)
    if artifacts.model is not None:
        sheets = (model_sheets.inputs_sheet, model_sheets.layers_sheet, model_sheets.groups_sheet)
        yield section("model", "Model", *(sheet(artifacts.model) for sheet in sheets))
    yield section("provenance", "Provenance", *provenance_sheets.all_sheets(artifacts))


def _export_sections(artifacts: Artifacts) -> Iterator[Section]:
    if artifacts.export is not None:
        yield section(
            "deploy",
            "Deploy model",
            export_sheets.buckets_sheet(artifacts.export),
            export_sheets.op_types_sheet(artifacts.export),
            export_sheets.factors_sheet(artifacts.export),
        )
    if artifacts.parity is not None:
        yield section(
            "parity",
            "Parity",
            export_sheets.parity_sheet(artifacts.parity),
            export_sheets.bucket_parity_sheet(artifacts.parity),
        )
    if artifacts.om is not None:
        yield section(
            "om",
            "OM conversion",
            export_sheets.conversions_sheet(artifacts.om),
            export_sheets.findings_sheet(artifacts.om.findings),
            export_sheets.rejected_sheet(artifacts.om),
            code=tuple(" ".join(x.command) for x in artifacts.om.conversions if x.kind != "probe"),
        )
