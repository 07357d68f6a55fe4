"""The sentence that says what ships."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quantflow.report.artifacts import Artifacts, read_artifacts
from quantflow.report.verdict_line import verdict_line
from tests.report.sample_run import comparison, coverage, drift, om, write_run


@pytest.fixture
def done(tmp_path: Path) -> Artifacts:
    """Everything has run, all gates pass, nothing is converted."""
    return read_artifacts(write_run(tmp_path))


def test_a_model_that_passes_ships_once_it_is_converted(done: Artifacts) -> None:
    assert verdict_line(done).startswith("Ships once it is converted: all 7 gates pass;")
    ships = verdict_line(replace(done, om=om("converted")))
    assert ships == "Ships: all 7 gates pass; the .om files are in 50_om."


def test_warnings_are_named_and_do_not_stop_it(done: Artifacts) -> None:
    warned = replace(done, drift=drift("warn"), om=om("converted"))
    assert "all 7 gates pass, with warnings (drift)" in verdict_line(warned)


def test_gates_that_fail_are_named(done: Artifacts) -> None:
    failed = replace(done, comparison=comparison("fail", ("too far off",)))
    assert verdict_line(failed) == "Does not ship: 1 of 7 gates fails (accuracy)."
    failed = replace(failed, coverage=coverage("fail"), om=om("converted"))
    assert verdict_line(failed) == "Does not ship: 2 of 7 gates fail (coverage, accuracy)."


def test_neither_a_refused_nor_a_failed_conversion_ships(done: Artifacts) -> None:
    for status in ("refused", "failed"):
        assert verdict_line(replace(done, om=om(status))).startswith("Does not ship:")


def test_a_run_on_its_way_has_nothing_to_ship_yet(done: Artifacts) -> None:
    assert verdict_line(replace(done, om=None)).startswith("Nothing to ship yet: all 7 gates pass")
    assert verdict_line(Artifacts()) == "Nothing to ship yet: stages are still to run."
