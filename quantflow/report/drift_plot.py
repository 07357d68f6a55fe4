# pyright: reportUnknownMemberType=false
"""The plot of the features in which the calibration set differs from deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quantflow.artifacts.drift_record import DriftReport
from quantflow.artifacts.record import Verdict
from quantflow.report.plots import MOST_BARS
from quantflow.report.svg import FAIL, GRID, INK, PASS, WARN, draw, name_rows, rows_height

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS: Final[dict[Verdict, str]] = {"pass": PASS, "warn": WARN, "fail": FAIL}


def drift_plot(drift: DriftReport) -> str:
    """Bars of the features' effects, the largest on top, coloured by verdict.

    Features beyond `MOST_BARS` are left out.
    """
    shown = drift.features[:MOST_BARS]

    def paint(axes: Axes) -> None:
        for verdict, colour in _COLOURS.items():
            spots = [spot for spot, x in enumerate(shown) if x.verdict == verdict]
            effects = [shown[spot].effect for spot in spots]
            if spots:
                axes.barh(spots, effects, height=0.62, color=colour, label=verdict)
        axes.axvline(1, color=GRID, zorder=0, label="noise floor of the feature")
        limits = {"warns above": (drift.warn_above, ":"), "fails above": (drift.fail_above, "--")}
        for label, (limit, style) in limits.items():
            axes.axvline(limit, color=INK, linewidth=1, linestyle=style, label=label)
        name_rows(axes, [x.feature for x in shown], "effect: distance over the noise floor")

    return draw("drift", rows_height(len(shown)), paint)
