"""The page's sections on the calibration set and the ranges that come of it."""

from __future__ import annotations

from collections.abc import Iterator

from quantflow.report import (
    coverage_sheets,
    drift_sheets,
    hygiene_sheet,
    model_sheets,
    range_sheets,
)
from quantflow.report.artifacts import Artifacts
from quantflow.report.section import Section, section

MOST_HISTOGRAMS = 3
"""Tensors whose histogram is on the page; `show ranges --layer` has them all."""


def set_sections(artifacts: Artifacts) -> Iterator[Section]:
    """What the model was calibrated on, and whether that is like deployment."""
    from quantflow.report.drift_plot import drift_plot

    drift = artifacts.drift
    if drift is not None:
        yield section(
            "drift",
            "Calibration set against deployment",
            drift_sheets.selections_sheet(drift),
            drift_sheets.features_sheet(drift),
            drift_sheets.examples_sheet(drift, artifacts.sets),
            plot=drift_plot(drift) if drift.features else "",
            plot_text="Effect of every feature, largest first",
        )
    if artifacts.hygiene is not None:
        yield section(
            "hygiene",
            "Hygiene of the samples",
            hygiene_sheet.findings_sheet(artifacts.hygiene),
            hygiene_sheet.sets_hygiene_sheet(artifacts.hygiene),
        )
    if artifacts.sets:
        yield section("sets", "Samples", model_sheets.sets_sheet(artifacts.sets))


def range_sections(artifacts: Artifacts) -> Iterator[Section]:
    """Coverage, clipping, ranges and what fp16 cannot hold."""
    from quantflow.report.plots import clipping_plot

    if artifacts.coverage is not None:
        sheets = [coverage_sheets.coverage_sheet(artifacts.coverage)]
        if artifacts.stability is not None:
            sheets.append(coverage_sheets.stability_sheet(artifacts.stability))
        yield section("coverage", "Range coverage", *sheets)
    if artifacts.clipping is not None:
        chosen = [row for row in artifacts.clipping.rows if row.chosen]
        chosen.sort(key=lambda row: -row.clipping_ratio)
        yield section(
            "clipping",
            "Clipping",
            range_sheets.clipping_sheet(artifacts.clipping),
            plot=clipping_plot(chosen),
            plot_text="Bounds in force against the largest values seen, most clipped first",
        )
        yield from _histogram_sections(artifacts)
    if artifacts.ranges is not None:
        yield section(
            "ranges",
            "Ranges",
            range_sheets.nonfinite_sheet(artifacts.ranges),
            range_sheets.ranges_sheet(artifacts.ranges),
        )
    if artifacts.fp16 is not None:
        yield section(
            "fp16",
            "fp16 safety",
            range_sheets.islands_sheet(artifacts.fp16),
            range_sheets.fp16_sheet(artifacts.fp16),
        )


def _histogram_sections(artifacts: Artifacts) -> Iterator[Section]:
    from quantflow.report.histogram_plot import histogram_plot
    from quantflow.report.tensor_story import stories, worst_tensors

    report = artifacts.clipping
    if report is None or not (artifacts.histograms and artifacts.channel_absmax):
        return
    told = stories(artifacts, worst_tensors(report, MOST_HISTOGRAMS))
    plots = [histogram_plot(story, f"histogram{i}") for i, story in enumerate(told)]
    sheets = (range_sheets.candidates_sheet(report, story.chosen.tensor) for story in told)
    yield section(
        "histograms",
        "Histograms of the worst tensors",
        *sheets,
        plot="\n".join(plots),
        plot_text="Values of the tensors that most need a look, with the bounds of every estimator",
    )
