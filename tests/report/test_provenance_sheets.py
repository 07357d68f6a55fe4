"""Versions, configuration and digests of a run."""

from __future__ import annotations

import hashlib
from pathlib import Path

from quantflow.report.artifacts import FOLDERS, Artifacts, read_artifacts
from quantflow.report.provenance_sheets import (
    all_sheets,
    configuration_sheet,
    files_sheet,
    stages_sheet,
    versions_sheet,
)
from tests.report.sample_run import provenance, write_run


def test_what_differs_between_stages_is_told_by_stage() -> None:
    rows = configuration_sheet(provenance(), len(FOLDERS)).rows
    others = ", ".join(name for name in FOLDERS if name != "45_compare")
    assert rows == (
        ("run.seed", "7", ""),
        ("budget.cosine_mean", "0.99", others),
        ("budget.cosine_mean", "0.98", "45_compare"),
    )


def test_versions_sessions_and_seed_are_there() -> None:
    rows = {row[0]: row[1] for row in versions_sheet(provenance(), len(FOLDERS)).rows}
    assert rows["onnxruntime"] == "1.32.0" and rows["seed"] == "7"
    assert rows["provider"] == "CPUExecutionProvider" and rows["intra_op_num_threads"] == "2"


def test_a_value_that_was_not_noted_of_every_stage_names_those_it_was_noted_of() -> None:
    known = provenance().of({"00_model": "", "50_om": ""})
    assert {row[2] for row in versions_sheet(known, 3).rows} == {"00_model, 50_om"}
    assert {row[2] for row in versions_sheet(known, 2).rows} == {""}


def test_digests_are_those_of_the_files(tmp_path: Path) -> None:
    found = read_artifacts(write_run(tmp_path))
    rows = dict(files_sheet(found).rows)
    assert {"00_model/model.json", "45_compare/comparison.json"} <= set(rows)
    for name, digest in rows.items():
        assert digest == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()


def test_stages_are_timed_where_that_is_known(tmp_path: Path) -> None:
    rows = stages_sheet(read_artifacts(write_run(tmp_path))).rows
    seconds = {stage: time for stage, time, *_ in rows}
    assert seconds["00_model"] == "1.2" and seconds["10_set"] == "-"


def test_a_run_of_which_nothing_was_noted_still_has_its_digests(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (tmp_path / "provenance.json").write_text("{broken")
    titles = [sheet.title for sheet in all_sheets(read_artifacts(run)) if sheet.rows]
    assert titles == ["Stages", "Files", "What each stage was made from"]
    assert not any(sheet.rows for sheet in all_sheets(Artifacts()))
