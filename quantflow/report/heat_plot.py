# pyright: reportUnknownMemberType=false
"""The map of errors: every layer's SQNR on every sample."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from quantflow.artifacts.comparison import Comparison
from quantflow.report.svg import HEAT, draw, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path as Outline

LIMITS: Final = (10, 15, 20, 25, 30, 35, 40)
"""Where one colour ends and the next begins, in dB; the same in every report."""

DENSE = 60
"""Layers from which on rows are narrow."""

Run = tuple[int, int, int]
"""Row, first column and the column behind the last one of cells side by side in one colour."""


def heat_plot(comparison: Comparison) -> str:
    """Layers from top to bottom in graph order, samples from left to right, coloured by SQNR.

    Args:
        comparison: with layers of which every sample was measured.
    """
    layers, samples = comparison.layers, comparison.layer_samples
    runs = runs_of([layer.sample_sqnr_db for layer in layers])
    row, size = (0.21, 9.0) if len(layers) < DENSE else (0.135, 6.5)

    def paint(axes: Axes) -> None:
        from matplotlib.patches import PathPatch

        for level, colour in enumerate(HEAT):
            outline = _outline(runs.get(level, []))
            patch = PathPatch(outline, facecolor=colour, edgecolor="none", label=label_of(level))
            axes.add_patch(patch)
        axes.set_xlim(0, len(samples))
        axes.set_ylim(len(layers), 0)
        ticks = [place + 0.5 for place in range(len(layers))]
        axes.set_yticks(ticks, [short_name(x.layer) for x in layers], fontsize=size)
        names = [f"{place}: {short_name(name, 24)}" for place, name in enumerate(samples, 1)]
        ticks = [place + 0.5 for place in range(len(samples))]
        axes.set_xticks(ticks, names, rotation=40, ha="left", rotation_mode="anchor", fontsize=7.5)
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.spines[:].set_visible(False)
        handles = axes.patches[: len(HEAT)]
        place, title = "outside upper left", "SQNR in dB"
        axes.figure.legend(
            handles=handles, loc=place, ncols=4, frameon=False, title=title, alignment="left"
        )

    return draw("heat", 2.0 + row * len(layers), paint)


def level_of(decibels: float) -> int | None:
    """Place of a figure's colour; None of NaN."""
    return None if decibels != decibels else bisect_right(LIMITS, decibels)


def label_of(level: int) -> str:
    """What a colour stands for."""
    if level == 0:
        return f"below {LIMITS[0]}"
    if level == len(LIMITS):
        return f"{LIMITS[-1]} and more"
    return f"{LIMITS[level - 1]} to {LIMITS[level]}"


def runs_of(rows: Sequence[Sequence[float]]) -> dict[int, list[Run]]:
    """Cells side by side in one colour, by colour: far fewer than cells."""
    found = dict[int, list[Run]]()
    for place, row in enumerate(rows):
        start = 0
        for level, cells in groupby(map(level_of, row)):
            end = start + sum(1 for _ in cells)
            if level is not None:
                found.setdefault(level, []).append((place, start, end))
            start = end
    return found


def _outline(runs: Sequence[Run]) -> Outline:
    from matplotlib.path import Path as Outline

    codes = (Outline.MOVETO, *(Outline.LINETO,) * 3, Outline.CLOSEPOLY)
    return Outline([*_corners(runs)] or [(0, 0)] * 5, [*codes] * max(len(runs), 1))


def _corners(runs: Sequence[Run]) -> Iterator[tuple[float, float]]:
    for row, start, end in runs:
        top, bottom = row + 0.04, row + 0.96
        yield from ((start, top), (end, top), (end, bottom), (start, bottom), (start, top))
