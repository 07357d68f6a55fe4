"""The table of two sides: what a NaN leaves to show, and what its note promises."""

from __future__ import annotations

from rich.console import Console

from quantflow.artifacts.side_by_side import (
    FirstBeyond,
    Limits,
    Point,
    SideBySide,
    SideInfo,
    SideKind,
)
from quantflow.report.sheet import Sheet
from quantflow.report.side_by_side_sheets import first_sheet, points_sheet
from quantflow.report.tables import fitted

FIGURES = {
    "kind": "tensor", "samples": 24, "cosine": 0.9999998, "cosine_mean": 0.5, "cosine_min": -1.0,
    "max_abs_error": 0.1, "mean_abs_error": 0.1, "reference_absmax": 1.0,
}  # fmt: skip


def point(name: str, **figures: object) -> Point:
    return Point.model_validate({"name": name, "tensor": name, **FIGURES, **figures})


def found(kind: SideKind, *points: Point) -> SideBySide:
    limits = Limits(
        layer_cosine=0.999, layers_decide=True, output_cosine=0.99, output_error=None, source="s"
    )
    return SideBySide(
        reference=SideInfo(name="one", kind=kind),
        other=SideInfo(name="two", kind="dump"),
        bucket="" if kind == "dump" else "batch2",
        samples=24,
        limits=limits,
        points=points,
        verdict="pass",
    )


def cells(sheet: Sheet, head: str) -> dict[str, str]:
    return {row[0]: row[sheet.head.index(head)] for row in sheet.rows}


def test_a_place_with_nan_has_no_cosine() -> None:
    spoiled = point("a", nonfinite_other=3, nonfinite_apart=3, relative_error=0.1)
    sheet = points_sheet(found("fp32", spoiled, point("b", relative_error=0.1)))
    assert cells(sheet, "cosine") == {"a": "-", "b": "0.9999998"}
    assert cells(sheet, "least") == {"a": "-", "b": "-1.000000"}
    assert cells(sheet, "NaN, Inf") == {"a": "3 / 0", "b": "0"}


def test_rows_are_sorted_as_the_note_says() -> None:
    points = [
        point("small", relative_error=0.1),
        point("large", relative_error=0.2),
        point("beyond", relative_error=0.05, beyond="mean cosine"),
        point("shape", trouble="shapes differ"),
        point("nan", nonfinite_other=1, nonfinite_apart=1, relative_error=0.0),
    ]
    sheet = points_sheet(found("fp32", *points))
    assert [row[0] for row in sheet.rows] == ["nan", "shape", "beyond", "large", "small"]
    order = ["NaN and Inf", "what cannot be compared", "what is beyond", "relative error"]
    places = [sheet.note.index(words) for words in order]
    assert "Sorted worst first" in sheet.note and places == sorted(places)


def test_entries_of_two_dumps_are_not_called_samples_layers_or_outputs() -> None:
    sheet = points_sheet(found("dump", point("a", relative_error=0.1, worst_samples=("[2]",))))
    words = " ".join([*sheet.head, *sheet.rows[0], sheet.note]).lower()
    assert "up to 24 entries along the first axis" in words and "worst entry" in words
    assert not any(word in words for word in ("sample", "layer", "output", "emulated"))
    assert "24 samples in bucket batch2" in points_sheet(found("fp32")).note


def test_columns_that_are_left_out_are_in_the_json_and_in_no_report() -> None:
    sheet = points_sheet(found("fp32", point("a", relative_error=0.1, worst_samples=("id",) * 5)))
    note = fitted(sheet, Console(width=60)).note
    assert "left out at this width; --json has all." in note and "report" not in note


def test_without_an_order_no_place_is_called_the_first() -> None:
    for ordered, title in ((True, "First place beyond its threshold"), (False, "worst place")):
        first = FirstBeyond(point="a", ordered=ordered, tensor="a", reason="cosine")
        assert title in first_sheet(first).title
        assert ("First" in first_sheet(first).title) == ordered
