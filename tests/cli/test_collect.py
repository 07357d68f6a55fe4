"""`quantflow export-om --collect`, from the command line."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.ascend import fake_atc
from tests.cli.conftest import Call
from tests.cli.tiny_project import write_project


def test_a_result_is_taken_back_shown_and_kept(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    config = write_project(tmp_path)
    answer = call("run", "-c", config, "-q")
    assert answer.code == 3 and "export-om --config" in answer.out and "--collect" in answer.out
    there = Path(shutil.copytree(tmp_path / "run" / "50_om", tmp_path / "there"))
    empty = call("export-om", "-c", config, "-q", "--collect", str(there))
    assert empty.code == 2 and "QF411" in empty.err
    atc = fake_atc.install(tmp_path / "bin", "fp16-fails").parent
    assert fake_atc.run_script(there, atc).returncode == 0
    answer = call("export-om", "-c", config, "-q", "--collect", str(there))
    assert answer.code == 0, answer.out + answer.err
    assert "DONE 50_om" in answer.out and "batch1.om" in answer.out
    tree = call("export-om", "-c", config, "-q", "--json").json
    assert tree["ran"] is False and tree["om"]["status"] == "converted"
    models = [x["status"] for x in tree["om"]["conversions"] if x["kind"] != "probe"]
    assert models == ["converted", "failed"]
    answer = call("run", "-c", config, "-q")
    assert answer.code == 0
    assert f"converted on another machine: {os.uname().nodename}" in answer.out
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["om"] == {
        "status": "converted"
    }
