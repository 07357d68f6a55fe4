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
