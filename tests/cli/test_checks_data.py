"""The doctor reads the first records of every source, before a run does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from quantflow.artifacts.model_record import ModelRecord
from quantflow.cli.checks_data import data_checks
from quantflow.config import load_config
from tests.calibration.tiny_tokenizer import write_tokenizer
from tests.cli.conftest import Call
from tests.cli.tiny_project import write_project

TEXT = """
[model]
factory = "net:build"
outputs = ["y"]
inputs.input_ids = { dtype = "int64", shape = ["batch", "length"] }
inputs.attention_mask = { dtype = "int64", shape = ["batch", "length"] }
[target]
buckets = [{ batch = 1, length = 8 }]
[set]
candidates = { kind = "text", path = "a.txt" }
preprocess = { tokenizer = "tokenizer.json", max_length = 8 }
"""


def lines(folder: Path, text: str = TEXT, *overrides: str) -> list[str]:
    (folder / "q.toml").write_text(text)
    write_tokenizer(folder / "tokenizer.json")
    (folder / "a.txt").write_text("red blue\ngreen\n")
    return [str(check) for check in data_checks(load_config(folder / "q.toml", overrides))]


def test_records_that_fit_are_said_without_the_factory_being_run(tmp_path: Path) -> None:
    (line,) = lines(tmp_path)
    assert line.startswith("[ok]   set.candidates: text a.txt: the first 2 records fit")
    (line,) = lines(tmp_path, TEXT, "set.preprocess.column=body")
    assert line.startswith("[ok]")


def test_a_sample_that_only_a_later_bucket_takes_is_told_so(tmp_path: Path) -> None:
    buckets = "target.buckets=[{batch = 1, length = 4}, {batch = 1, length = 8}]"
    (line,) = lines(tmp_path, TEXT, buckets)
    assert "QF320" in line and "put the largest first" in line


def test_everything_that_is_wrong_is_said_at_once(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    rows = [{"x": [0.5] * 15}, {"x": [0.5] * 16}]
    (tmp_path / "short.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "broken.npz").write_bytes(b"PK")
    (tmp_path / "qf_bad.py").write_text(
        "def rows():\n    print('noise')\n    raise ValueError('none today')\n"
    )
    config.write_text(
        config.read_text()
        + '[set.deployment]\nkind = "jsonl"\npath = "short.jsonl"\n'
        + '[set.evaluation]\nkind = "npz"\npath = "broken.npz"\n'
        + '[task]\nkind = "similarity"\nscores = "qf_bad:rows"\n'
        + '[task.source]\nkind = "function"\nfunction = "qf_bad:rows"\n'
    )
    answer = call("doctor", "-c", config, "--json")
    assert answer.code == 2 and "noise" not in answer.out
    found = {x["name"]: x["value"] for x in answer.json["checks"] if x["level"] == "error"}
    assert {name: value[:5] for name, value in found.items()} == {
        "set.deployment": "QF306",
        "set.evaluation": "QF302",
        "task.source": "QF304",
    }
    assert "record 0" in found["set.deployment"]


def test_a_bucket_and_a_tokenizer_that_do_not_fit_the_inputs_are_said(tmp_path: Path) -> None:
    text = TEXT.replace("input_ids", "ids").replace(", length = 8", "")
    bucket, preprocess, source = lines(tmp_path, text)
    assert "QF206" in bucket and "QF305" in preprocess and "[model.inputs]" in preprocess
    assert source.startswith("[ok]") and "can be read" in source


def test_a_module_that_is_not_there_is_one_problem(call: Call, tmp_path: Path) -> None:
    config = write_project(tmp_path)
    answer = call("doctor", "-c", config, "--set", "set.preprocess.function=nowhere:f")
    assert answer.code == 2 and answer.out.count("QF105") == 1


@pytest.mark.parametrize(("key", "warned"), [("", 1), ("mask = true", 0), ("mask = false", 0)])
def test_an_input_that_looks_like_a_mask_is_asked_about(
    call: Call, tmp_path: Path, key: str, warned: int
) -> None:
    shape = ["batch", 4]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name in ("x", "the_mask", "y")
    ]
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    nodes = [
        helper.make_node("Mul", ["x", "the_mask"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", infos[:2], infos[2:], [weight])
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    np.savez(tmp_path / "a.npz", x=np.ones((3, 4), "f"), the_mask=np.ones((3, 4), "f"))
    text = f"""
    [model]
    onnx = "m.onnx"
    [model.inputs.the_mask]
    {key}
    [set]
    candidates = {{ kind = "npz", path = "a.npz" }}
    """
    found = lines(tmp_path, text)
    said = "input 'the_mask' looks like a mask: mark it mask = true"
    assert found.count(f"[warn] inputs: {said}") == warned and len(found) == warned + 1
    assert call("prepare", "-c", tmp_path / "q.toml").code == 0
    notes = ModelRecord.read(tmp_path / "run/00_model/model.json").notes
    assert notes.count(said) == warned
