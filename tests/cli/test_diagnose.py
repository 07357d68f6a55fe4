"""`quantflow diagnose`: the sentence, the next command, and an exit status that says which."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from quantflow.config import Config
from quantflow.evaluation.attribution import Evidence
from quantflow.evaluation.remedies import State, next_step
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
    assert step == "quantflow build-set --set set.selection=match"
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
    assert call("diagnose", *limited[2:]).code == 2  # the sets are of another size


def test_what_has_not_been_calibrated_is_told_the_command(call: Call, tmp_path: Path) -> None:
    answer = call("diagnose", "-q", "-c", write_project(tmp_path))
    assert answer.code == 2 and "QF404" in answer.err and "quantflow prepare" in answer.err


def state(*, swept: bool = False, optimized: bool = True, **sections: object) -> State:
    """What has been done of a project with some sections."""
    sets = {"candidates": {"kind": "npz", "path": "x.npz"}}
    config = Config.model_validate({"model": {"onnx": "m.onnx"}, "set": sets, **sections})
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
