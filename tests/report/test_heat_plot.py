"""The map of errors: every cell in the colour of its figure, in graph order."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantflow.artifacts.comparison import Comparison, LayerError
from quantflow.report.heat_plot import LIMITS, heat_plot, label_of, level_of, runs_of
from quantflow.report.sample_error_sheets import (
    measured_by_sample,
    sample_errors_sheet,
    worst_cells_sheet,
)
from tests.report.sample_run import comparison

NAN = math.nan


def of(rows: dict[str, tuple[float, ...]], samples: int) -> Comparison:
    layers = tuple(
        LayerError(layer=name, group="g", sqnr_db=20.0, own_sqnr_db=20.0, sample_sqnr_db=row)
        for name, row in rows.items()
    )
    names = tuple(f"sample[{i}]" for i in range(samples))
    return comparison().model_copy(update={"layers": layers, "layer_samples": names})


@pytest.mark.parametrize(
    ("decibels", "label"),
    [
        (-math.inf, "below 10"),
        (9.999, "below 10"),
        (10.0, "10 to 15"),
        (39.999, "35 to 40"),
        (40.0, "40 and more"),
        (math.inf, "40 and more"),
    ],
)
def test_a_colour_stands_for_five_decibels(decibels: float, label: str) -> None:
    level = level_of(decibels)
    assert level is not None and label_of(level) == label


def test_what_has_no_figure_has_no_colour() -> None:
    assert level_of(NAN) is None


CELL = st.one_of(st.just(NAN), st.floats(-5, 60))


@given(st.lists(st.lists(CELL, min_size=3, max_size=3), max_size=6))
def test_runs_cover_every_cell_once_in_its_colour(rows: list[list[float]]) -> None:
    cells = {
        (row, column): level
        for level, found in runs_of(rows).items()
        for row, start, end in found
        for column in range(start, end)
    }
    assert cells == {
        (i, k): sum(value >= limit for limit in LIMITS)
        for i, row in enumerate(rows)
        for k, value in enumerate(row)
        if value == value
    }
    lengths = (end - start for found in runs_of(rows).values() for _, start, end in found)
    assert sum(lengths) == len(cells)


def test_cells_lie_where_their_layer_and_sample_are() -> None:
    # The only cell below 10 dB is that of the second of two layers on the third of four samples.
    svg = heat_plot(of({"a": (50.0,) * 4, "b": (50.0, 50.0, 5.0, 50.0)}, samples=4))

    def box(variable: str) -> tuple[float, float, float, float]:
        path = re.search(rf'<path d="([^"]*)"[^>]*fill: var\(--{variable}\)', svg)
        assert path
        places = [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path[1])]
        xs, ys = zip(*places, strict=True)
        return min(xs), max(xs), min(ys), max(ys)

    left, right, top, bottom = box("heat7")
    worst_left, worst_right, worst_top, worst_bottom = box("heat0")
    width, height = right - left, bottom - top
    assert (worst_left - left) / width == pytest.approx(2 / 4, abs=0.01)
    assert (worst_right - left) / width == pytest.approx(3 / 4, abs=0.01)
    assert (worst_top - top) / height == pytest.approx(1 / 2, abs=0.05)
    assert worst_bottom == pytest.approx(bottom, abs=0.05)
    assert ">a<" in svg and ">b<" in svg and ">3: sample[2]<" in svg


def test_the_worst_cells_are_listed_least_first() -> None:
    record = of({"a": (30.0, 9.5), "b": (NAN, 8.25), "c": ()}, samples=2)
    assert worst_cells_sheet(record).rows == (
        ("b", "sample[1]", "8.2", "20.0"),
        ("a", "sample[1]", "9.5", "20.0"),
        ("a", "sample[0]", "30.0", "20.0"),
    )


def test_all_figures_stand_in_graph_order_with_gaps_marked() -> None:
    record = of({"z": (30.0, 9.5), "a": (NAN, math.inf), "c": ()}, samples=2)
    sheet = sample_errors_sheet(record)
    assert sheet.head == ("layer", "1", "2")
    assert sheet.rows == (("z", "30.0", "9.5"), ("a", "-", "inf"), ("c", "-", "-"))
    assert sheet.note == "Samples: 1: sample[0], 2: sample[1]."


def test_records_without_figures_of_samples_have_no_map() -> None:
    assert not measured_by_sample(of({"a": (), "b": (NAN,)}, samples=1))
    assert measured_by_sample(of({"a": (), "b": (NAN, 1.0)}, samples=2))
