"""A file that is asked for never takes the place of what is there for another reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantflow.cli.output_file import check_output
from quantflow.errors import QuantflowError


@pytest.mark.parametrize("name", ["40_onnx/deploy.onnx", "40_onnx", "10_set/x/y"])
def test_folders_of_stages_are_theirs(tmp_path: Path, name: str) -> None:
    (tmp_path / "40_onnx").mkdir()
    with pytest.raises(QuantflowError, match="QF604"):
        check_output(tmp_path / name, tmp_path)


@pytest.mark.parametrize("name", ["summary.json", "timings.json", "provenance.json", ".lock"])
def test_files_of_the_run_are_its_own(tmp_path: Path, name: str) -> None:
    with pytest.raises(QuantflowError, match="QF604"):
        check_output(tmp_path / name, tmp_path)
    check_output(tmp_path / "elsewhere" / name, tmp_path / "run")


@pytest.mark.parametrize("name", ["my_model.py", "my.toml", "model.onnx", "data.npz"])
def test_sources_are_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("of a person")
    with pytest.raises(QuantflowError, match="QF604"):
        check_output(tmp_path / name, tmp_path / "run")


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    run, model, dump = tmp_path / "run", tmp_path / "side.onnx", tmp_path / "dump"
    run.mkdir()
    dump.mkdir()
    model.write_bytes(b"model")
    (tmp_path / "link.onnx").symlink_to(model)
    for output in (model, tmp_path / "link.onnx", dump / "a.npy"):
        with pytest.raises(QuantflowError, match="QF604"):
            check_output(output, run, [model, dump])
    check_output(tmp_path / "new.json", run, [model, dump])
