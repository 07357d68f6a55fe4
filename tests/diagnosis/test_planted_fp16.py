"""What is fp16's own fault is named before all else, and nothing where nothing is wrong."""

from __future__ import annotations

from pathlib import Path

from tests.sensitivity.projects import run_until

from .planted import (
    TIGHT,
    diagnose,
    diagnosed,
    overflowing,
    project,
    read,
    sound,
    vanishing,
    without_islands,
)


def test_values_beyond_fp16_without_islands_are_put_down_to_fp16(tmp_path: Path) -> None:
    config = project(tmp_path, overflowing())
    run_until("30_sweep", config)
    without_islands(config)
    diagnose(config, samples=16)
    found = read(config)
    assert found.finding == "fp16" and "`c2` reaches" in found.sentence
    # A new plan has the islands: with them fp16 is fine.
    assert found.next_step == "quantflow sweep --force"
    (mended,) = (x for x in found.experiments if "all islands" in x.name)
    assert mended.measures[0].damage < 1e-3


def test_values_that_vanish_in_fp16_are_put_down_to_fp16(tmp_path: Path) -> None:
    config = project(tmp_path, vanishing())
    found = diagnosed(config)
    assert found.finding == "fp16" and found.fp16_share is not None
    assert found.fp16_share.value > 0.9 and "below what fp16 holds" in found.sentence
    assert found.next_step == "quantflow show fp16"


def test_islands_that_the_plan_has_are_no_cause(tmp_path: Path) -> None:
    config = project(tmp_path, overflowing())
    found = diagnosed(config, TIGHT)
    assert found.finding != "fp16" and found.fp16_share is not None
    assert found.fp16_share.value < 0.2


def test_nothing_is_explained_within_the_budget(tmp_path: Path) -> None:
    config = project(tmp_path, sound())
    found = diagnosed(config)
    assert found.finding == "nothing" and found.sentence.startswith("Nothing to explain")
    # No experiment is run for it.
    assert [x.cause for x in found.experiments] == [None, None]
