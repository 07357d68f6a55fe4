"""An atc that touches what is not its own: nothing counts that was not verified in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quantflow.artifacts.om_record import OmRecord
from quantflow.ascend.convert import convert

from . import fake_atc
from .conftest import Configure, Export
from .fake_atc import run_script

CASES = [
    ("overwrites", {"batch1": "verified"}),
    ("changes-a-model", {"batch8": "atc changed deploy_batch8.onnx"}),
    (
        "deletes-models",
        {
            "batch1": "atc changed deploy_batch1.onnx",
            "batch1_fp16": "atc changed float_batch1.onnx",
            "batch8": "atc changed deploy_batch8.onnx",
            "batch8_fp16": "atc changed float_batch8.onnx",
        },
    ),
    ("link", dict.fromkeys(("batch1", "batch1_fp16", "batch8", "batch8_fp16"), "no .om file")),
]


def check(rows: list[dict[str, Any]], bad: dict[str, str], folder: Path) -> None:
    assert {row["name"] for row in rows if row["status"] == "failed"} == set(bad)
    for row in rows:
        assert bad.get(row["name"], "") in row["reason"]
        assert (row["om"] is None) == (row["name"] in bad)
        assert (folder / f"{row['name']}.om").exists() == (row["name"] not in bad)


@pytest.mark.parametrize(("mode", "bad"), CASES)
def test_here(mode: str, bad: dict[str, str], export: Export, configure: Configure) -> None:
    executable = fake_atc.install(export.out.parent / "bin", mode)
    record = convert(
        configure(executable=str(executable)), export.record, export.directory, export.out
    )
    assert isinstance(record, OmRecord) and record.status == "failed"
    check([x.model_dump() for x in record.conversions], bad, export.out)
    manifest = json.loads((export.out / "manifest.json").read_text())
    for bucket in manifest["buckets"]:
        assert (bucket["int8"] is None) == (bucket["name"] in bad)


@pytest.mark.parametrize(("mode", "bad"), CASES)
def test_on_another_machine(
    mode: str, bad: dict[str, str], export: Export, configure: Configure, tmp_path: Path
) -> None:
    convert(configure(), export.record, export.directory, export.out)
    done = run_script(export.out, fake_atc.install(tmp_path / "bin", mode).parent)
    assert done.returncode == 4 and done.stderr == ""
    result = json.loads((export.out / "result.json").read_text())
    check(result["conversions"], bad, export.out)
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"{4 - len(bad)} of 4 converted; first problem: ")


def test_a_relative_entry_of_path_is_followed(
    export: Export, configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_atc.install(tmp_path / "bin", "good")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin")
    loaded = configure(executable="atc")
    record = convert(loaded, export.record, export.directory, export.out)
    assert record.status == "converted", record.conversions[0].reason
    (export.out / "result.json").unlink(missing_ok=True)
    assert run_script(export.out, Path("bin"), cwd=tmp_path).returncode == 0
    plan = json.loads((export.out / "conversions.json").read_text())
    (export.out / "conversions.json").write_text(json.dumps(plan | {"atc": "./bin/atc"}))
    assert run_script(export.out, None, "--force", cwd=tmp_path).returncode == 0
