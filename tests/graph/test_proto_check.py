"""Files that hold what nothing can read are refused where they are read, in words."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantflow.errors import QuantflowError
from quantflow.graph.model_io import load_model
from quantflow.graph.proto_io import load_proto
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
