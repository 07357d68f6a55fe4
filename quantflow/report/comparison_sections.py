"""The page's sections on the comparison: accuracy with intervals, and where the error arises."""

from __future__ import annotations

from collections.abc import Iterator

from quantflow.report import comparison_sheets, paired_sheets, sample_error_sheets
from quantflow.report.artifacts import Artifacts
from quantflow.report.budget_sheet import budget_sheet
from quantflow.report.section import Section, section


def comparison_sections(artifacts: Artifacts) -> Iterator[Section]:
    """Where the error arises, by layer and by sample; then what it comes to."""
    from quantflow.report.heat_plot import heat_plot
    from quantflow.report.plots import sqnr_plot

    comparison = artifacts.comparison
    if comparison is None:
        return
    if comparison.layers:
        layers = comparison_sheets.worst_layers(comparison)
        yield section(
            "layers",
            "Where the error arises",
            comparison_sheets.errors_sheet(comparison, artifacts.export, artifacts.sweep),
            plot=sqnr_plot(layers),
            plot_text="SQNR of each layer's output, worst first",
        )
    if sample_error_sheets.measured_by_sample(comparison):
        yield section(
            "heat",
            "Errors by layer and sample",
            sample_error_sheets.worst_cells_sheet(comparison),
            sample_error_sheets.sample_errors_sheet(comparison),
            plot=heat_plot(comparison),
            plot_text=(
                "SQNR of each layer's output on each sample, layers in graph order; all errors "
                "from the input on count. The table below has the figures"
            ),
        )
    yield section(
        "precision",
        "Accuracy: fp32, fp16 and int8",
        comparison_sheets.precisions_sheet(comparison, artifacts.export),
        budget_sheet(comparison),
        *paired_sheets.all_sheets(comparison),
        comparison_sheets.worst_samples_sheet(comparison),
    )
