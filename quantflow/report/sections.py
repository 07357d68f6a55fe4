"""The sections of the HTML page: which tables and plots stand under which heading."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quantflow.report import comparison_sheets, export_sheets, model_sheets, range_sheets
from quantflow.report.artifacts import Artifacts
from quantflow.report.gates import all_gates
from quantflow.report.sheet import Sheet


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        anchor, title: of its heading.
        sheets: its tables; empty ones are left out.
        plot: SVG, or empty.
        plot_text: what the plot shows, in words.
        code: command lines, one a block.
    """

    anchor: str
    title: str
    sheets: tuple[Sheet, ...]
    plot: str = ""
    plot_text: str = ""
    code: tuple[str, ...] = ()


def sections(artifacts: Artifacts) -> Iterator[Section]:
    """The sections that have something to say, in the page's order."""
    return (section for section in _all_sections(artifacts) if section.sheets)


def _all_sections(artifacts: Artifacts) -> Iterator[Section]:
    gates = all_gates(artifacts)
    if gates:
        yield _section("gates", "Gates", comparison_sheets.gates_sheet(gates))
    yield from _comparison_sections(artifacts)
    yield from _range_sections(artifacts)
    if artifacts.sets:
        yield _section("sets", "Samples", model_sheets.sets_sheet(artifacts.sets))
    yield from _export_sections(artifacts)
    if artifacts.model is not None:
        sheets = (model_sheets.inputs_sheet, model_sheets.layers_sheet, model_sheets.groups_sheet)
        yield _section("model", "Model", *(sheet(artifacts.model) for sheet in sheets))


def _comparison_sections(artifacts: Artifacts) -> Iterator[Section]:
    from quantflow.report.plots import sqnr_plot

    comparison = artifacts.comparison
    if comparison is None:
        return
    yield _section(
        "precision",
        "fp32, fp16 and int8",
        comparison_sheets.precisions_sheet(comparison),
        comparison_sheets.worst_samples_sheet(comparison),
    )
    if comparison.layers:
        layers = comparison_sheets.worst_layers(comparison)
        yield _section(
            "layers",
            "Where the error arises",
            comparison_sheets.errors_sheet(comparison),
            plot=sqnr_plot(layers),
            plot_text="SQNR of each layer's output, worst first",
        )


def _range_sections(artifacts: Artifacts) -> Iterator[Section]:
    from quantflow.report.plots import clipping_plot

    if artifacts.clipping is not None:
        chosen = [row for row in artifacts.clipping.rows if row.chosen]
        chosen.sort(key=lambda row: -row.clipping_ratio)
        yield _section(
            "clipping",
            "Clipping",
            range_sheets.clipping_sheet(artifacts.clipping),
            plot=clipping_plot(chosen),
            plot_text="Bounds in force against the largest values seen, most clipped first",
        )
    if artifacts.ranges is not None:
        yield _section(
            "ranges",
            "Ranges",
            range_sheets.nonfinite_sheet(artifacts.ranges),
            range_sheets.ranges_sheet(artifacts.ranges),
        )
    if artifacts.fp16 is not None:
        yield _section(
            "fp16",
            "fp16 safety",
            range_sheets.islands_sheet(artifacts.fp16),
            range_sheets.fp16_sheet(artifacts.fp16),
        )


def _export_sections(artifacts: Artifacts) -> Iterator[Section]:
    if artifacts.export is not None:
        plan = [export_sheets.plan_sheet(artifacts.plan)] if artifacts.plan else []
        yield _section(
            "deploy",
            "Deploy model",
            export_sheets.buckets_sheet(artifacts.export),
            export_sheets.op_types_sheet(artifacts.export),
            *plan,
            export_sheets.factors_sheet(artifacts.export),
        )
    if artifacts.parity is not None:
        yield _section("parity", "Parity", export_sheets.parity_sheet(artifacts.parity))
    if artifacts.om is not None:
        yield _section(
            "om",
            "OM conversion",
            export_sheets.conversions_sheet(artifacts.om),
            export_sheets.findings_sheet(artifacts.om),
            code=tuple(" ".join(x.command) for x in artifacts.om.conversions),
        )


def _section(
    anchor: str,
    title: str,
    *sheets: Sheet,
    plot: str = "",
    plot_text: str = "",
    code: tuple[str, ...] = (),
) -> Section:
    filled = tuple(sheet.filled() for sheet in sheets if sheet.rows)
    return Section(anchor, title, filled, plot, plot_text, code)
