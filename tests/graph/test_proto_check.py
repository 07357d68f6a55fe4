"""Files that hold what nothing can read are refused where they are read, in words."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantflow.errors import QuantflowError
from quantflow.evaluation.side_file import file_side
from quantflow.graph.model_io import load_model
from quantflow.graph.proto_io import load_proto
from quantflow.graph.wiring import check_wiring
from tests.target.deploy_models import deploy_model


def product() -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "wwww"], ["y"], name="AAAA", doc_string="DDDD")],
        "g",
        [value("x", TensorProto.FLOAT, ["batch", 4])],
        [value("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(np.ones((4, 3), np.float32), "wwww")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def refusal(path: Path) -> str:
    with pytest.raises(QuantflowError) as caught:
        load_model(path)
    (problem,) = caught.value.problems
    assert problem.code == "QF201" and problem.where == str(path) and problem.fix
    return problem.what


@pytest.mark.parametrize("text", [b"AAAA", b"MatMul", b"batch", b"wwww", b"DDDD"])
def test_text_that_is_no_utf_8_is_named(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(product().SerializeToString().replace(text, b"\x80" * len(text)))
    assert "is not UTF-8 text: b'\\x80" in refusal(path)
    with pytest.raises(QuantflowError, match="QF201"):
        load_proto(path)


def test_bytes_changed_at_random_never_end_in_another_error(tmp_path: Path) -> None:
    data, path, rng = deploy_model().SerializeToString(), tmp_path / "m.onnx", random.Random(1)
    refused = list[str]()
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 2, 8))):
            changed[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(changed)
        try:
            load_model(path)
        except QuantflowError as error:
            refused += [problem.code for problem in error.problems]
    assert set(refused) <= {"QF201", "QF202"} and len(refused) > 50


@pytest.mark.parametrize("key", ["offset", "length"])
@pytest.mark.parametrize("number", ["-4", "abc", ""])
def test_places_of_external_data_that_are_no_numbers_are_named(
    tmp_path: Path, key: str, number: str
) -> None:
    model, path = product(), tmp_path / "m.onnx"
    weight = model.graph.initializer[0]
    (tmp_path / "w.bin").write_bytes(weight.raw_data)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for name, value in {"location": "w.bin", key: number}.items():
        weight.external_data.add(key=name, value=value)
    path.write_bytes(model.SerializeToString())
    assert f"{key} of the external data of 'wwww' is {number!r}" in refusal(path)


def test_sparse_weights_are_named(tmp_path: Path) -> None:
    model, path = product(), tmp_path / "m.onnx"
    del model.graph.initializer[:]
    values = numpy_helper.from_array(np.ones(1, np.float32), "wwww")
    places = numpy_helper.from_array(np.array([5]))
    sparse = helper.make_sparse_tensor(values, places, [4, 3])
    model.graph.sparse_initializer.append(sparse)
    path.write_bytes(model.SerializeToString())
    assert "'wwww' is a sparse tensor" in refusal(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("location", "a\0b"),
        ("location", "x" * 5000),
        ("location", "x/" * 5000 + "x"),
        ("location", "loop"),
        ("offset", "9" * 5000),
        ("offset", "-1"),
        ("length", "9" * 19),
        ("length", "\u0661"),
    ],
)
def test_a_place_of_external_data_that_cannot_be_is_said_shortly(
    tmp_path: Path, key: str, value: str
) -> None:
    model, path = product(), tmp_path / "m.onnx"
    (tmp_path / "loop").symlink_to("loop")
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    place = {"location": "w.bin", "offset": "0", "length": "48"} | {key: value}
    for name, text in place.items():
        weight.external_data.add(key=name, value=text)
    path.write_bytes(model.SerializeToString())
    assert len(refusal(path)) < 500


def test_a_pipe_and_a_directory_are_no_model(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.onnx")
    (tmp_path / "d.onnx").mkdir()
    for name in ("p.onnx", "d.onnx"):
        with pytest.raises(QuantflowError, match=r"QF201 .*it is no regular file"):
            load_model(tmp_path / name)


@pytest.mark.parametrize("index", range(len(deploy_model().graph.node)))
def test_a_model_that_lacks_a_node_is_refused_shortly(tmp_path: Path, index: int) -> None:
    proto, path = deploy_model(), tmp_path / "m.onnx"
    del proto.graph.node[index]
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(QuantflowError, match="QF201 nothing in the model gives") as error:
        check_wiring(load_model(path), path)
    with pytest.raises(QuantflowError, match="QF201 nothing in the model gives"):
        file_side(path, *[cast("Any", None)] * 4)  # before anything else is looked at
    assert len(str(error.value)) < 500
