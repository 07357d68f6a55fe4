"""The page's sections on stage 3: sensitivity, the curve, the plan."""

from __future__ import annotations

from collections.abc import Iterator

from quantflow.report import plan_sheets, score_sheets
from quantflow.report.artifacts import Artifacts
from quantflow.report.section import Section, section


def plan_sections(artifacts: Artifacts) -> Iterator[Section]:
    """What plan is in force, what others would come to, and which groups hurt."""
    from quantflow.report.curve_plot import curve_plot, measured_by
    from quantflow.report.sweep_plots import scores_plot

    sweep, plan, edited = artifacts.sweep, artifacts.plan, artifacts.plan_edited
    if plan is not None:
        yield section("plan", "Precision plan", plan_sheets.plan_sheet(plan, edited=edited))
    if sweep is None:
        return
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
    if sweep.scores:
        yield section(
            "sensitivity",
            "Sensitivity",
            score_sheets.scores_sheet(sweep),
            score_sheets.sides_sheet(sweep),
            plot=scores_plot(sweep),
            plot_text="Damage of each group alone in INT8, most harmful first",
        )
