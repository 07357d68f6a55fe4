"""`export-om --dry-run`: the commands that would be run, and nothing is."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.tiny_project import write_project
from tests.run_files import contents


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with two buckets, its run directory exported."""
    from quantflow.__main__ import main

    config = write_project(tmp_path_factory.mktemp("project"))
    buckets = "[target]\nbuckets = [{ batch = 4 }, { batch = 1 }]\n"
    config.write_text(config.read_text().replace("[set]", f"{buckets}[set]", 1))
    for command in ("prepare", "build-set", "calibrate", "export-onnx", "export-om"):
        assert main([command, "-q", "-c", str(config)]) in (0, 3)
    return config


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is there when atc was started."""
    path, atc = tmp_path / "atc_was_started", tmp_path / "atc"
    atc.write_text(f"#!/bin/sh\n: > {path}\nexit 1\n")
    atc.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return path


def test_the_commands_are_those_that_the_stage_runs(call: Call, project: Path, trace: Path) -> None:
    run = project.parent / "run"
    before = contents(run)
    tree = call("export-om", "-c", project, "--dry-run", "--json")
    assert tree.code == 0 and contents(run) == before and not trace.exists()
    plan = json.loads((run / "50_om" / "conversions.json").read_text())
    written = {entry["name"]: entry["arguments"] for entry in plan["conversions"]}
    commands = {entry["name"]: entry["arguments"] for entry in tree.json["commands"]}
    assert commands == {name: ["atc", *words] for name, words in written.items()}
    models = ["batch4", "batch4_fp16", "batch1", "batch1_fp16"]
    assert [name for name in commands if not name.startswith("probe_")] == models
    assert len(commands) == len(models) + 5  # the probes
    assert tree.json["directory"] == str(run / "50_om")
    assert [stage["stage"] for stage in tree.json["stages"]][-1] == "50_om"


def test_a_shell_takes_the_printed_lines_for_these_commands(
    call: Call, project: Path, trace: Path
) -> None:
    tag = 'atc.options.out_nodes="first:0;head:0"'  # ; would end the command
    tree = call("export-om", "-c", project, "--dry-run", "--json", "--set", tag).json
    answer = call("export-om", "-c", project, "--dry-run", "--set", tag)
    lines = [line for line in answer.out.splitlines() if line.startswith("atc ")]
    assert [shlex.split(line) for line in lines] == [
        x["arguments"] for x in tree["commands"] if not x["name"].startswith("probe_")
    ]
    assert "5 probes" in answer.out and tree["atc"] is not None
    assert "'--out_nodes=first:0;head:0'" in lines[0]
    assert answer.code == 0 and not trace.exists()


@pytest.mark.parametrize("json_too", [False, True])
def test_findings_are_shown_and_errors_are_the_exit_code(
    call: Call, project: Path, trace: Path, json_too: bool
) -> None:
    before = contents(project.parent / "run")
    words = ["--set", "atc.options.precision_mode=fp16", *(["--json"] if json_too else [])]
    answer = call("export-om", "-c", project, "--dry-run", *words)
    assert answer.code == 2 and "E10001" in answer.out and not trace.exists()
    assert contents(project.parent / "run") == before
    missing = call(
        "export-om", "-c", project, "--dry-run", "--set", "atc.options.keep_dtype=no.txt"
    )
    assert missing.code == 2 and "cannot be read" in missing.out


def test_a_missing_option_file_is_refused_when_it_is_run_too(
    call: Call, project: Path, tmp_path: Path, trace: Path
) -> None:
    config = shutil.copytree(project.parent, tmp_path / "copy") / project.name
    answer = call("export-om", "-q", "-c", config, "--set", "atc.options.keep_dtype=no.txt")
    assert answer.code == 2 and "cannot be read" in answer.err and not trace.exists()


def test_before_the_export_there_is_no_command(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    answer = call("export-om", "-c", config, "--dry-run")
    assert answer.code == 0 and "export-onnx" in answer.out
    assert "commands" not in call("export-om", "-c", config, "--dry-run", "--json").json
    assert not (tmp_path / "run").exists()


def test_a_generated_file_that_an_option_names_travels(
    call: Call, tmp_path: Path, trace: Path
) -> None:
    config, run = write_project(tmp_path), tmp_path / "run"
    for command in ("prepare", "build-set", "calibrate", "sweep"):
        assert call(command, "-c", config, "-q").code == 0
    path = run / "30_sweep" / "plan.json"
    plan = json.loads(path.read_text())
    plan["islands"] = [{"node": "tanh", "op_type": "Tanh", "tensor": "a1", "absmax": 1e5}]
    path.write_text(json.dumps(plan))
    exported = call("export-onnx", "-c", config, "-q")
    assert exported.code == 0 and "modify_mixlist.json" in exported.out
    assert "high_precision does not go with an INT8 model" in exported.out
    lists = json.loads((run / "40_onnx" / "modify_mixlist.json").read_text())
    assert lists["black-list"]["to-add"] == ["Tanh"]
    assert not (run / "40_onnx" / "op_precision_mode.ini").exists()
    options = 'modify_mixlist = "run/40_onnx/modify_mixlist.json"\nprecision_mode = "{}"\n'
    text = config.read_text() + "[atc.options]\n"
    config.write_text(text + options.format("force_fp16"))
    planned = call("export-om", "-c", config, "--dry-run")
    assert planned.code == 2 and "mixed precision mode" in planned.out
    config.write_text(text + options.format("allow_mix_precision"))
    planned = call("export-om", "-c", config, "--dry-run", "--json")
    assert planned.code == 0 and not trace.exists()
    words = planned.json["commands"][0]["arguments"]
    assert "--modify_mixlist=options/modify_mixlist.json" in words
    assert "--keep_dtype=keep_dtype_batch1.txt" in words
    assert call("export-om", "-c", config, "-q").code == 4 and trace.exists()
    assert json.loads((run / "50_om" / "options" / "modify_mixlist.json").read_text()) == lists
