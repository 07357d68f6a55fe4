import shutil
from pathlib import Path

import pytest

from quantflow.cli.show import What
from quantflow.cli.views import VIEWS
from tests.cli.conftest import Call
from tests.report.sample_run import write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_run(tmp_path)
    return tmp_path


def test_every_view_can_be_asked_for() -> None:
    assert {what.value for what in What} == {*VIEWS, "timings"}


@pytest.mark.parametrize("what", [what.value for what in What])
def test_every_view_has_a_table_and_json(call: Call, run: Path, what: str) -> None:
    answer = call("show", what, "--run", run)
    assert answer.code == 0 and answer.out
    assert call("show", what, "--run", run, "--json").json


def test_the_layer_that_errs_most_comes_first(call: Call, run: Path) -> None:
    lines = call("show", "layers", "--run", run).out.splitlines()
    names = [line.split()[0] for line in lines if line.strip().startswith(("block", "head"))]
    assert names[:3] == ["block.key", "head", "block.query"]


def test_a_layer_s_candidates_are_shown_on_both_splits(call: Call, run: Path) -> None:
    out = call("show", "ranges", "--layer", "block.key", "--run", run).out
    assert "Candidates for x" in out and "Candidates for h" not in out
    for text in ("minmax *", "kl", "calibration", "heldout"):
        assert text in out


def test_json_holds_only_the_layer_asked_for(call: Call, run: Path) -> None:
    tree = call("show", "parity", "--layer", "block.key", "--run", run, "--json").json
    assert [layer["layer"] for layer in tree["parity"]["layers"]] == ["block.key"]
    tree = call("show", "plan", "--layer", "head", "--run", run, "--json").json
    assert list(tree["plan"]["groups"]) == ["head"]
    tree = call("show", "clipping", "--layer", "head", "--run", run, "--json").json
    assert {row["tensor"] for row in tree["clipping"]["rows"]} == {"h"}


def test_scores_of_one_layer_s_group_keep_their_rank(call: Call, run: Path) -> None:
    out = call("show", "scores", "--layer", "block.key", "--run", run).out
    (row,) = [line.split() for line in out.splitlines() if "block.qk" in line]
    assert row[:2] == ["2", "block.qk"] and "classifier" not in out
    tree = call("show", "scores", "--layer", "head", "--run", run, "--json").json
    assert [score["group"] for score in tree["sweep"]["scores"]] == ["head"]


def test_a_view_that_is_not_about_layers_refuses_one(call: Call, run: Path) -> None:
    answer = call("show", "policies", "--layer", "head", "--run", run)
    assert answer.code == 2 and "layer by layer" in answer.err


def test_an_unknown_layer_is_answered_with_near_names(call: Call, run: Path) -> None:
    answer = call("show", "layers", "--layer", "block.qurey", "--run", run)
    assert answer.code == 2
    assert "did you mean 'block.query'" in answer.err


def test_rows_are_limited_and_the_rest_is_counted(call: Call, run: Path) -> None:
    assert "1 of 3 rows" in call("show", "layers", "--limit", "1", "--run", run).out


def test_what_has_not_run_is_said_with_its_command(call: Call, run: Path) -> None:
    shutil.rmtree(run / "40_onnx")
    answer = call("show", "parity", "--run", run)
    assert answer.code == 2 and "quantflow export-onnx" in answer.err
    answer = call("show", "parity", "--run", run / "nowhere")
    assert answer.code == 2 and "QF404" in answer.err


def test_an_empty_table_is_said_in_words(call: Call, run: Path) -> None:
    assert "not finite: none" in call("show", "ranges", "--run", run).out


def test_the_report_is_written_from_the_artifacts(call: Call, run: Path) -> None:
    answer = call("report", "--run", run, "--json")
    assert answer.json == {"report": str(run / "report.html")}
    assert (run / "report.html").read_text().startswith("<!doctype html>")
