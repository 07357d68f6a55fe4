"""Tables of coverage and stability: where deployment comes from, the least stable layer first."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.stability_record import StabilityReport, StabilityRow
from quantflow.report.artifacts import read_artifacts
from quantflow.report.calibration_sections import range_sections
from quantflow.report.coverage_sheets import coverage_sheet, stability_sheet
from tests.report import sample_run as made


def _stability() -> StabilityReport:
    rows = (
        StabilityRow(tensor="x", group="block.qk", spreads=(0.04, 0.02), expected=0.01, enough=8),
        StabilityRow(tensor="h", group="head", spreads=(0.5, 0.4), expected=0.3, enough=None),
        StabilityRow(tensor="z", group="tail", spreads=(0.5, 0.2), expected=0.04, enough=1200),
    )
    return StabilityReport(
        reasons=("the range of head moves by 40%",),
        samples=1200,
        draws=100,
        threshold=0.05,
        sizes=(8, 16),
        median=(0.5, 0.2, 0.04),
        largest=(0.5, 0.4, 0.3),
        enough=None,
        rows=rows,
    )


def test_the_note_says_where_deployment_comes_from() -> None:
    report = made.coverage()
    assert coverage_sheet(report).note.startswith("3 held-out deployment samples")
    profiled = report.model_copy(update={"deployment": "profile"})
    assert coverage_sheet(profiled).note.startswith("3 deployment samples, by their profile,")


def test_the_least_stable_tensor_comes_first() -> None:
    sheet = stability_sheet(_stability())
    assert sheet.head == ("group", "with 8", "with 16", "with all 1,200", "5% from")
    assert sheet.rows[0] == ("head", "50.0%", "40.0%", "30.0%", "more than 1,200")
    assert [(row[0], row[-1]) for row in sheet.rows[1:]] == [("tail", "1,200"), ("block.qk", "8")]
    assert "The range of head moves by 40%." in sheet.note


def test_the_page_shows_stability_beside_coverage(tmp_path: Path) -> None:
    run = made.write_run(tmp_path / "run")
    found = read_artifacts(run)
    (section, *_) = range_sections(found)
    assert [sheet.title for sheet in section.sheets] == ["Range coverage"]
    _stability().write(run.folder("20_ranges") / "stability.json")
    (section, *_) = range_sections(read_artifacts(run))
    assert [sheet.title for sheet in section.sheets] == ["Range coverage", "Range stability"]
