"""What an interrupted conversion had finished is not converted again, if it is what it was."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from quantflow.artifacts.om_record import OmRecord
from quantflow.artifacts.run_directory import RunDirectory
from tests.ascend import fake_atc

from .conftest import RunStages

ALL = ["batch1", "batch1_fp16", "batch4", "batch4_fp16"]


@pytest.fixture
def interrupted(
    run_stages: RunStages, run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The unfinished folder of a conversion that was ended while the second of four ran."""
    folders = ("00_model", "10_set", "20_ranges", "40_onnx")
    run_stages(*folders)
    monkeypatch.setenv("PATH", str(fake_atc.install(tmp_path / "bin", "fp16-hangs").parent))
    partial = run.root / "50_om.partial"
    monkeypatch.setattr("quantflow.ascend.run_atc._GRACE_S", 1.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    fake_atc.send(partial / "children.txt", [signal.SIGINT])
    try:
        with pytest.raises(KeyboardInterrupt):
            run_stages("50_om")
    finally:
        signal.signal(signal.SIGINT, before)
    assert not run.folder("50_om").exists()
    fake_atc.install(tmp_path / "bin", "good")
    return partial


def converted_now(run: RunDirectory) -> list[str]:
    """What atc was started for by the attempt that made the stage's folder."""
    folder = run.folder("50_om")
    record = OmRecord.read(folder / "om.json")
    assert [(x.name, x.status) for x in record.conversions] == [(x, "converted") for x in ALL]
    for x in record.conversions:
        assert (folder / f"{x.name}.om").read_bytes() == fake_atc.om_bytes()
        assert "ATC start working" in (folder / "logs" / f"{x.name}.log").read_text()
    assert not (folder / "finished").exists()
    return (folder / "seen_outputs.txt").read_text().split()


def test_it_goes_on(run_stages: RunStages, run: RunDirectory, interrupted: Path) -> None:
    assert sorted(x.name for x in interrupted.iterdir() if "finished" in x.name) == ["finished"]
    run_stages("50_om")
    assert converted_now(run) == ALL[1:]


def test_a_file_that_was_changed_meanwhile_is_made_anew(
    run_stages: RunStages, run: RunDirectory, interrupted: Path
) -> None:
    om = interrupted / "finished" / "batch1.om"
    om.write_bytes(om.read_bytes()[:-1] + b"x")
    run_stages("50_om")
    assert converted_now(run) == ALL


@pytest.mark.parametrize("record", [b"", b"{}", b'{"name": 1', b"\xff"])
def test_so_is_one_whose_record_is_damaged(
    record: bytes, run_stages: RunStages, run: RunDirectory, interrupted: Path
) -> None:
    (interrupted / "finished" / "batch1.json").write_bytes(record)
    run_stages("50_om")
    assert converted_now(run) == ALL


def test_all_is_made_anew_when_that_is_asked_for(
    run_stages: RunStages, run: RunDirectory, interrupted: Path
) -> None:
    assert interrupted.is_dir()
    run_stages("50_om", force=True)
    assert converted_now(run) == ALL
