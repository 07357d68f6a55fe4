"""The page's sections on stage 3: sensitivity, the curve, the plan."""

from __future__ import annotations

from collections.abc import Iterator

from quantflow.artifacts.plan import PrecisionPlan
from quantflow.artifacts.sweep_record import SweepRecord
from quantflow.report import plan_sheets, score_sheets
from quantflow.report.artifacts import Artifacts
from quantflow.report.section import Section, section


def plan_sections(artifacts: Artifacts) -> Iterator[Section]:
    """Which groups hurt, what plans would come to, and what plan is in force."""
    sweep, plan, edited = artifacts.sweep, artifacts.plan, artifacts.plan_edited
    if sweep is not None:
        yield from _sweep_sections(sweep, plan, edited=edited)
    if plan is not None:
        yield section("plan", "Precision plan", plan_sheets.plan_sheet(plan, edited=edited))


def _sweep_sections(
    sweep: SweepRecord, plan: PrecisionPlan | None, *, edited: bool
) -> Iterator[Section]:
    from quantflow.report.curve_plot import curve_plot, measured_by
    from quantflow.report.sweep_plots import scores_plot

    if sweep.scores:
        yield section(
            "sensitivity",
            "Sensitivity",
            score_sheets.scores_sheet(sweep),
            score_sheets.sides_sheet(sweep),
            plot=scores_plot(sweep),
            plot_text="Damage of each group alone in INT8, most harmful first",
        )
    yield section(
        "curve",
        "Accuracy against INT8 share",
        plan_sheets.policies_sheet(sweep, edited=edited),
        plan_sheets.curve_sheet(sweep, plan),
        plot=curve_plot(sweep),
        plot_text=(
            f"The {measured_by(sweep).name} against the share of MACs in INT8, with 95% intervals"
        ),
    )
