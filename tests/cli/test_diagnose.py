"""`quantflow diagnose`: the sentence, the next command, and an exit status that says which."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from quantflow.artifacts.comparison import Summary
from quantflow.artifacts.diagnosis_record import Cause
from quantflow.artifacts.run_directory import RunDirectory
from quantflow.config import Config
from quantflow.evaluation.attribution import Evidence
from quantflow.evaluation.remedies import State, next_step
from quantflow.report.artifacts import read_artifacts
from quantflow.report.gates import all_gates
from tests.cli.conftest import Call
from tests.cli.tiny_project import add_deployment, write_project
from tests.diagnosis.test_attribution import of


@pytest.fixture
def config(tmp_path: Path, call: Call) -> Path:
    """A calibrated project whose production is ten times as loud as its candidates."""
    path = write_project(tmp_path)
    add_deployment(path, scale=10)
    for command in ("prepare", "build-set", "calibrate"):
        assert call(command, "-q", "-c", path).code in (0, 1)  # the gates fail
    return path


def test_a_cause_ends_in_exit_code_1_and_can_be_shown(call: Call, config: Path) -> None:
    answer = call("diagnose", "-q", "-c", config)
    assert answer.code == 1 and "remove" in answer.out
    last = answer.out.splitlines()[-1]
    assert last.startswith("CAUSE: data 46_diagnosis | ")
    step = last.partition("next: ")[2]
    assert step == f"quantflow build-set --config {config} --set set.selection=match"
    assert "write what helps into the configuration" in answer.err
    tried = call(*shlex.split(step)[1:], "--dry-run", "--json", "-c", config)
    assert tried.code == 0
    assert [x["state"] for x in tried.json["stages"] if x["stage"] == "10_set"] == ["would run"]
    again = call("diagnose", "-c", config, "--json")
    assert again.code == 1 and again.json["ran"] is False
    assert again.json["diagnosis"]["finding"] == "data"
    shown = call("show", "diagnosis", "-c", config, "--json")
    assert shown.json["diagnosis"] == again.json["diagnosis"]


def test_within_the_budget_the_exit_code_is_0(call: Call, config: Path) -> None:
    answer = call("diagnose", "-q", "-c", config, "--set", "budget.cosine_mean=0.1")
    assert answer.code == 0 and "WITHIN THE BUDGET" in answer.out.splitlines()[-1]


def test_a_quick_try_is_diagnosed_with_the_limit_it_was_made_with(call: Call, config: Path) -> None:
    limited = ("--limit", "6", "--set", "run.directory=try", "-c", config, "-q")
    for command in ("prepare", "build-set", "calibrate"):
        call(command, *limited)
    assert call("diagnose", *limited).code == 1
    without = call("diagnose", *limited[2:])
    assert without.code == 2 and "QF407" in without.err
    assert "if the run was made with another --limit" in without.err


def test_what_has_not_been_calibrated_is_told_the_command(call: Call, tmp_path: Path) -> None:
    answer = call("diagnose", "-q", "-c", write_project(tmp_path))
    assert answer.code == 2 and "QF404" in answer.err and "quantflow prepare" in answer.err


def test_a_cause_fails_a_gate_until_a_comparison_has_judged(call: Call, config: Path) -> None:
    assert call("diagnose", "-q", "-c", config, "--set", "budget.cosine_mean=0.1").code == 0
    assert "diagnosis" not in gates(config)
    call("diagnose", "-q", "-c", config)
    assert gates(config)["diagnosis"] == "fail"
    call("export-onnx", "-q", "-c", config)
    call("compare", "-q", "-c", config)
    found = gates(config)
    assert "diagnosis" not in found and found["accuracy"] == "fail"


def gates(config: Path) -> dict[str, str]:
    """Verdicts of a run so far, which `summary.json` must know of."""
    run = RunDirectory(config.parent / "run")
    found = {gate.name: gate for gate in all_gates(read_artifacts(run))}
    summary = Summary.read(run.root / "summary.json")
    assert summary.reasons == tuple(x for gate in found.values() for x in gate.reasons)
    return {name: gate.verdict for name, gate in found.items()}


def state(*, swept: bool = False, optimized: bool = True, **sections: object) -> State:
    """What has been done of a project with some sections."""
    sets = {"candidates": {"kind": "npz", "path": "x.npz"}}
    config = Config.model_validate({"model": {"onnx": "m.onnx"}} | {"set": sets} | sections)
    return State(config, optimized, swept, lacks_islands=False, given=False, groups=["a.b", "[c]"])


def test_pins_that_are_there_stay_and_those_for_layers_match_only_them() -> None:
    pins = [{"role": "classifier"}]
    evidence = Evidence("worst 2 groups in fp16", "layers", of(0.8), (2, 8))
    step = next_step(state(swept=True, plan={"pins": pins}), {"layers": evidence})
    assert shlex.split(step) == [
        "quantflow", "sweep", "--set",
        'plan.pins=[{ role = "classifier", precision = "fp16" }, '
        '{ pattern = "a.b", precision = "fp16" }, { pattern = "[[]c]", precision = "fp16" }]',
    ]  # fmt: skip


def test_what_lowers_all_errors_comes_before_what_leaves_layers_out() -> None:
    assert next_step(state(optimized=False), {}) == "quantflow optimize"
    assert next_step(state(), {}) == "quantflow sweep"
    assert next_step(state(swept=True), {}) == "quantflow show curve"
    other = state(plan={"policy": "none"}, swept=True)
    assert next_step(other, {}) == "quantflow sweep --set plan.policy=auto"


def test_an_override_that_would_keep_the_ranges_is_to_be_taken_out() -> None:
    overrides = [{"role": "ffn", "estimator": "kl"}]
    evidence = Evidence("minmax ranges", "ranges", of(0.8))
    step = next_step(state(quantization={"overrides": overrides}), {"ranges": evidence})
    assert step.startswith("take the estimators out of quantization.overrides")
    assert step.endswith("quantflow calibrate --set quantization.estimator=minmax")


def test_candidates_that_no_choice_makes_like_deployment_are_to_be_replaced() -> None:
    source = {"kind": "npz", "path": "x.npz"}
    matched = {"candidates": source, "deployment": source, "selection": "match"}
    evidence: dict[Cause, Evidence] = {"data": Evidence("ranges of deployment", "data", of(0.8))}
    more = next_step(state(set=matched | {"pool_samples": 500}), evidence)
    assert more == "quantflow build-set --set set.pool_samples=1000"
    unlike = replace(state(set=matched), unlike=["x.max", "x.mean", "x.std"])
    step = next_step(unlike, evidence)
    assert step.startswith("give [set.candidates] samples more like deployment, in `x.max` and")
    assert "`x.mean`" in step and "--set" not in step and "x.std" not in step


def test_a_budget_that_is_met_and_not_enough_is_to_be_tightened() -> None:
    step = next_step(replace(state(swept=True), tighter=0.9995), {})
    assert step == "quantflow sweep --set budget.cosine_mean=0.9995"
