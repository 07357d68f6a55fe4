"""The commands on a real, tiny model."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.tiny_project import add_deployment, write_project


@pytest.fixture(autouse=True)
def no_atc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    # Half the time of a tiny run goes into plots, which tests of the report look at.
    monkeypatch.setattr("quantflow.report.svg._svg", lambda figure, name: f"<svg id='{name}'/>")


def test_a_run_passes_says_what_is_next_and_is_instant_the_second_time(
    call: Call, tmp_path: Path
) -> None:
    config = write_project(tmp_path)
    first = call("run", "-c", config)
    assert first.code == 3  # passed, but there is no atc
    last = first.out.splitlines()[-1]
    word = "PASSED WITH WARNINGS, NOT CONVERTED (1 gate warns: drift) | "
    assert last.startswith(word) and "convert.py" in last
    assert "ranges: 3/3" in first.err
    for name in ("summary.json", "report.html", "timings.json"):
        assert (tmp_path / "run" / name).exists()
    files = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    second = call("run", "-c", config, "-q")
    assert second.code == 3 and second.err == ""
    assert second.out.splitlines()[-1].split(" | ")[1] == "nothing changed"
    assert files == {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}


def test_a_missed_budget_fails_before_the_conversion(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    arguments = ("run", "-c", config, "-q", "--set", "budget.cosine_mean=1.0")
    answer = call(*arguments)
    assert answer.code == 1
    assert answer.out.splitlines()[-1].startswith("FAILED | ")
    assert not (tmp_path / "run" / "50_om").exists()
    tree = call(*arguments, "--keep-going", "--json").json
    assert tree["exit_code"] == 1 and tree["verdict"] == "fail"
    assert tree["summary"]["om"] == {"status": "not-converted"}
    assert [stage["stage"] for stage in tree["stages"]][-1] == "50_om"


def test_a_summary_of_earlier_results_does_not_survive(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    call("run", "-c", config, "-q")
    summary = tmp_path / "run" / "summary.json"
    found = json.loads(summary.read_text())
    assert found["plan"] == {"policy": "auto", "verified": True}
    assert found["coverage"] == {"verdict": "pass"}
    assert found["drift"] == {"verdict": "warn"} and "deployment" in found["reasons"][0]
    assert found["verdict"] == "warn"  # the worst of the gates
    assert call("calibrate", "-c", config, "-q", "--set", "quantization.symmetric=true").code == 0
    found = json.loads(summary.read_text())
    assert found["coverage"] == {"verdict": "pass"} and found["verdict"] == "warn"
    assert found["fidelity"] == {} and found["fp16_groups"] == []
    assert {found[key] for key in ("plan", "deploy", "om", "int8_mac_fraction")} == {None}


def test_a_summary_is_there_when_a_gate_stops_the_run(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    call("run", "-c", config, "-q", "--set", "plan.policy=none", "--set", "budget.cosine_mean=1.0")
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert found["verdict"] == "fail" and found["plan"] == {"policy": "none", "verified": False}
    assert any("misses the budget" in reason for reason in found["reasons"])
    assert found["fidelity"] == {} and found["deploy"] is None


def test_a_summary_of_earlier_results_does_not_survive_an_error(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    call("run", "-c", config, "-q")
    (tmp_path / "run" / "00_model" / "model.onnx").write_bytes(b"")
    plan = tmp_path / "run" / "30_sweep" / "plan.json"
    plan.write_text(plan.read_text() + " ")
    assert call("export-onnx", "-c", config, "-q").code == 2
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["deploy"] is None


def test_the_model_and_the_chip_are_in_the_records(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    call("run", "-c", config, "-q")
    for file, key, value in (
        ("00_model/model.json", "origin", "model.onnx"),
        ("40_onnx/export.json", "chip", "Ascend310P3"),
    ):
        assert json.loads((tmp_path / "run" / file).read_text())[key] == value


def test_after_the_conversion_both_the_comparison_and_the_files_are_next(
    call: Call, tmp_path: Path
) -> None:
    config = write_project(tmp_path)
    for command in ("prepare", "build-set", "calibrate", "sweep", "export-onnx"):
        assert call(command, "-c", config, "-q").code == 0
    last = call("export-om", "-c", config, "-q").out.splitlines()[-1]
    assert (
        f"`quantflow compare --config {config}`" in last
        and "50_om" in last
        and "convert.py" in last
    )


def test_production_unlike_the_candidates_stops_the_run_at_once(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    add_deployment(config, scale=5.0)
    samples = ("--set", "set.samples=30")
    answer = call("run", "-c", config, "-q", *samples)
    assert answer.code == 1
    assert f"quantflow show --config {config} drift" in answer.out.splitlines()[-1]
    assert not (tmp_path / "run" / "20_ranges").exists()
    tree = call("run", "-c", config, "-q", *samples, "--keep-going", "--json").json
    assert tree["exit_code"] == 1
    verdicts = {gate["name"]: gate["verdict"] for gate in tree["gates"]}
    assert verdicts["drift"] == verdicts["coverage"] == "fail"
    assert tree["summary"]["drift"] == tree["summary"]["coverage"] == {"verdict": "fail"}


def test_production_like_the_candidates_passes(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    add_deployment(config, scale=1.0)
    call("prepare", "-c", config, "-q")
    answer = call("build-set", "-c", config, "-q", "--set", "set.samples=30")
    assert answer.code == 0 and "\npass: drift\n" in answer.out
    answer = call("calibrate", "-c", config, "-q", "--set", "set.samples=30")
    assert answer.code == 0 and "\npass: coverage\n" in answer.out


def test_a_sweep_shows_scores_and_policies_and_points_to_the_plan(
    call: Call, tmp_path: Path
) -> None:
    config = write_project(tmp_path)
    call("run", "-c", config, "-q")
    answer = call("sweep", "-c", config, "-q")
    for text in ("Sensitivity", "Policies", "auto *", "\npass: plan\n"):
        assert text in answer.out
    assert "edit 30_sweep/plan.json if you like, then quantflow export-onnx" in answer.out
    tree = call("sweep", "-c", config, "-q", "--json").json
    assert {"sweep", "plan"} <= set(tree) and tree["verdict"] == "pass"


def test_a_plan_that_misses_the_budget_stops_the_run(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    arguments = ("run", "-c", config, "-q", "--set", "plan.policy=none")
    answer = call(*arguments, "--set", "budget.cosine_mean=1.0")
    assert answer.code == 1 and "policy none misses the budget" in answer.out
    assert not (tmp_path / "run" / "40_onnx").exists()


def test_an_edited_plan_is_obeyed_with_a_warning(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    call("run", "-c", config, "-q")
    plan = tmp_path / "run" / "30_sweep" / "plan.json"
    tree = json.loads(plan.read_text())
    tree["groups"]["head"] = {"precision": "fp16", "reason": "to be sure"}
    plan.write_text(json.dumps(tree))
    answer = call("run", "-c", config, "-q", "--json")
    assert answer.code == 3  # passed, but there is no atc
    ran = {stage["stage"]: stage["ran"] for stage in answer.json["stages"]}
    assert not ran["30_sweep"] and ran["40_onnx"] and ran["45_compare"]
    assert answer.json["summary"]["plan"] == {"policy": "auto", "verified": False}
    assert answer.json["summary"]["fp16_groups"] == ["head"]
    assert "plan was edited" in " ".join(answer.json["summary"]["reasons"])
    assert "head" in call("show", "plan", "--run", tmp_path / "run").out


def test_limit_caps_every_set_and_raises_none(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    assert call("prepare", "-c", config, "-q").code == 0
    tree = call("build-set", "-c", config, "-q", "--limit", "11", "--json").json
    counts = [len(tree[name]["samples"]) for name in ("calibration", "heldout", "evaluation")]
    assert counts == [11, 10, 10]  # of 12, 10 and 10


def test_a_stage_command_says_what_it_did_and_what_is_next(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    answer = call("prepare", "-c", config, "-q")
    assert answer.out.splitlines()[-1].startswith("DONE 00_model | ")
    assert answer.out.endswith(f"next: quantflow build-set --config {config}\n")
    assert "| nothing changed |" in call("prepare", "-c", config, "-q").out
    assert "nothing changed" not in call("prepare", "-c", config, "-q", "--force").out
    tree = call("prepare", "-c", config, "-q", "--json").json
    assert tree["stage"] == "00_model" and tree["ran"] is False
    assert [layer["name"] for layer in tree["model"]["layers"]] == ["first", "second", "head"]


def test_a_stage_without_its_source_names_the_command(call: Call, tmp_path: Path) -> None:
    answer = call("calibrate", "-c", write_project(tmp_path), "-q")
    assert answer.code == 2 and "`quantflow prepare`" in answer.err


def test_a_dry_run_does_nothing(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    tree = call("run", "-c", config, "--dry-run", "--json").json
    assert {stage["why"] for stage in tree["stages"]} == {"has not run"}
    assert not (tmp_path / "run").exists()


def test_a_run_directory_in_use_is_refused(call: Call, tmp_path: Path) -> None:
    import fcntl

    config = write_project(tmp_path)
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / ".lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        answer = call("prepare", "-c", config)
    assert answer.code == 2 and "QF406" in answer.err


def test_the_conversion_s_status_is_the_command_s(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_project(tmp_path)
    call("run", "-c", config, "-q")
    assert call("export-om", "-c", config, "-q").code == 3
    fake = tmp_path / "atc"
    fake.write_text("#!/bin/sh\necho 'ATC run failed, E10001: no'\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    answer = call("export-om", "-c", config, "-q")
    assert answer.code == 4
    last = answer.out.splitlines()[-1]
    assert last.startswith("CONVERSION FAILED 50_om")
    assert "atc said 'ATC run failed, E10001: no'" in last and "log: 50_om/logs/" in last


def test_a_conversion_that_a_failed_gate_contradicts_is_removed_and_that_is_said(
    call: Call, tmp_path: Path
) -> None:
    config = write_project(tmp_path)
    call("run", "-c", config, "-q")
    assert (tmp_path / "run" / "50_om" / "convert.py").exists()
    answer = call("run", "-c", config, "--set", "budget.cosine_mean=1.0")
    assert answer.code == 1
    assert answer.err.count("50_om was removed: ") == 1
    assert not (tmp_path / "run" / "50_om").exists()


@pytest.mark.parametrize("command", ["run", "prepare", "export-om", "compare"])
def test_every_command_refuses_a_chip_that_atc_does_not_know(
    call: Call, tmp_path: Path, command: str
) -> None:
    config = write_project(tmp_path)
    answer = call(command, "-c", config, "--set", "target.chip=310P3")
    assert answer.code == 2 and "QF110" in answer.err and "Ascend310P3" in answer.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("body", ["raise OSError('no weights')", "raise SystemExit(0)"])
def test_a_factory_that_raises_or_exits_is_named(call: Call, tmp_path: Path, body: str) -> None:
    config = write_project(tmp_path)
    (tmp_path / "qf_factory.py").write_text(f"def build():\n    {body}\n")
    model = 'factory = "qf_factory:build"\noutputs = ["y"]\ninputs.x.shape = ["batch", 16]'
    config.write_text(config.read_text().replace('onnx = "model.onnx"', model))
    answer = call("prepare", "-c", config, "-q")
    assert answer.code == 2
    assert "QF203 the factory raised" in answer.err and "qf_factory:build" in answer.err


def test_an_island_that_is_no_node_of_the_model_is_named(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    for command in ("prepare", "build-set", "calibrate", "sweep"):
        assert call(command, "-c", config, "-q").code == 0
    path = tmp_path / "run" / "30_sweep" / "plan.json"
    plan = json.loads(path.read_text())
    plan["islands"] = [{"node": "rel", "op_type": "Relu", "tensor": "r0", "absmax": 1e5}]
    path.write_text(json.dumps(plan))
    answer = call("export-onnx", "-c", config, "-q")
    assert answer.code == 2 and "QF542" in answer.err and "did you mean 'relu'" in answer.err
