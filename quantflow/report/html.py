"""The HTML page of a run: one file, no network, the same bytes for the same artifacts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quantflow import __version__
from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.run_directory import MANIFEST, RunDirectory
from quantflow.report import comparison_sheets, export_sheets, model_sheets, range_sheets
from quantflow.report.artifacts import FOLDERS, Artifacts, read_artifacts
from quantflow.report.gates import all_gates, overall
from quantflow.report.next_steps import next_steps
from quantflow.report.sheet import Sheet, cosine_text

OPEN_ROWS = 15
"""Rows of a table that show at once; the others unfold."""


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


def write_report(run: RunDirectory, path: Path) -> None:
    """Write the page of a run.

    Args:
        run: whose artifacts are read; stages that have not run are left out.
        path: the file to write.

    Raises:
        QuantflowError: QF402 when an artifact does not hold its record.
    """
    write_atomically(path, render(read_artifacts(run)).encode())


def report_is_fresh(run: RunDirectory, path: Path) -> bool:
    """Whether the page was written after every stage that is there."""
    manifests = [run.folder(folder) / MANIFEST for folder in FOLDERS]
    times = [manifest.stat().st_mtime_ns for manifest in manifests if manifest.exists()]
    return path.exists() and path.stat().st_mtime_ns > max(times, default=0)


def render(artifacts: Artifacts) -> str:
    """The page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("quantflow.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    gates = all_gates(artifacts)
    return environment.get_template("page.html.j2").render(
        version=__version__,
        verdict=overall(gates) if gates else "unfinished",
        reasons=[reason for gate in gates for reason in gate.reasons],
        facts=list(_facts(artifacts)),
        steps=next_steps(artifacts),
        outdated=artifacts.outdated,
        sections=[section for section in _sections(artifacts) if section.sheets],
        open_rows=OPEN_ROWS,
    )


def _facts(artifacts: Artifacts) -> Iterator[tuple[str, str, str]]:
    """Label, figure and remark of the figures at the top."""
    comparison = artifacts.comparison
    for key in ("int8", "fp16"):
        fidelity = comparison.fidelity.get(key) if comparison else None
        if fidelity is not None:
            remark = f"least {cosine_text(fidelity.cosine_min)}"
            yield f"{key} cosine to fp32", cosine_text(fidelity.cosine_mean), remark
    if comparison is not None and comparison.task:
        scores = comparison.task
        fp16 = f"fp16 {scores['fp16'].value:.4f}" if "fp16" in scores else ""
        if "int8" in scores:
            yield f"int8 {comparison.task_metric}", f"{scores['int8'].value:.4f}", fp16
    if artifacts.export is not None:
        share = f"{artifacts.export.int8_mac_fraction:.1%}"
        yield "MACs in INT8", share, f"{artifacts.export.boundaries} quant and dequant nodes"
    if artifacts.parity is not None:
        yield "parity", cosine_text(artifacts.parity.cosine_min), "least cosine of any layer"
    if artifacts.om is not None:
        yield "OM", artifacts.om.status, f"{len(artifacts.om.conversions)} bucket(s)"


def _sections(artifacts: Artifacts) -> Iterator[Section]:
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
