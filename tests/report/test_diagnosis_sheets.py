"""The table of a diagnosis has every experiment, with what it removes of the loss."""

from __future__ import annotations

from pathlib import Path

from quantflow.artifacts.diagnosis_record import Share
from quantflow.report.artifacts import read_artifacts
from quantflow.report.diagnosis_sheets import experiments_sheet
from quantflow.report.sections import sections

from .sample_run import diagnosis, write_diagnosis, write_run


def test_shares_stand_beside_the_experiments_and_the_sentence_below() -> None:
    sheet = experiments_sheet(diagnosis())
    removed = sheet.head.index("loss removed")
    cells = {row[0]: (row[1], *row[removed : removed + 2]) for row in sheet.rows}
    assert cells["ranges of deployment"] == ("data", "80%", "70% to 90%")
    assert cells["INT8 as planned"] == ("-", "-", "-")
    assert ">= 0.99" in sheet.rows[-1]
    assert diagnosis().sentence in sheet.note and diagnosis().next_step in sheet.note
    assert "fp16, which has 1% of it alone" in sheet.note and "activations" in sheet.note


def test_a_change_that_adds_to_the_loss_makes_it_worse() -> None:
    *others, last = diagnosis().experiments
    share = Share(value=-15.12, low=-30.0, high=-2.0)
    worse = last.model_copy(update={"removed": share})
    found = diagnosis().model_copy(update={"experiments": (*others, worse)})
    sheet = experiments_sheet(found)
    removed = sheet.head.index("loss removed")
    (row,) = (x for x in sheet.rows if x[0] == last.name)
    assert row[removed : removed + 2] == ("makes it worse", "-")
    assert found.to_tree()["experiments"][-1]["removed"]["value"] == -15.12


def test_within_the_budget_there_are_no_shares() -> None:
    references = diagnosis().experiments[:2]
    update = {"finding": "nothing", "experiments": references, "fp16_share": None, "also": ()}
    sheet = experiments_sheet(diagnosis().model_copy(update=update))
    assert "loss removed" not in sheet.head and len(sheet.rows) == 3


def test_the_page_has_a_section_where_a_diagnosis_was_made(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    assert "diagnosis" not in {x.anchor for x in sections(read_artifacts(run))}
    write_diagnosis(run)
    (found,) = (x for x in sections(read_artifacts(run)) if x.anchor == "diagnosis")
    assert found.sheets[0].rows
