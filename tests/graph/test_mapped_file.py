"""Models read without their weights: the same model, and no file that breaks the reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from quantflow.errors import QuantflowError
from quantflow.graph.from_onnx import external_files, read_onnx
from quantflow.graph.mapped_file import read_mapped
from quantflow.graph.model_io import load_model, save_model

from .models import assert_close, build, rand, run

TEXT = (
    "(float[n,40] x, bool c) => (float[n,30] y) { m = MatMul(x, w) a = Add(m, b) y = If (c) "
    "<then_branch = t () => (float[n,30] p) { p = Relu(a) }, "
    "else_branch = e () => (float[n,30] q) { q = Tanh(a) }> }"
)
MODEL = build(TEXT, {"w": rand(40, 30), "b": rand(30, seed=1)})
X = rand(3, 40, seed=2)


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is large."""
    monkeypatch.setattr("quantflow.graph.model_io.EXTERNAL_DATA_THRESHOLD", 0)


def saved(folder: Path, model: onnx.ModelProto = MODEL) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_the_weights_stay_in_the_file_and_the_model_is_the_same(tmp_path: Path) -> None:
    path = saved(tmp_path)
    model = load_model(path)
    weight = model.graph.initializers["w"].const_value
    assert isinstance(weight, ir.ExternalTensor) and external_files(path) == []
    assert not isinstance(model.graph.initializers["b"].const_value, ir.ExternalTensor)
    for c in (True, False):
        feeds = {"x": X, "c": np.array(c)}
        assert_close(run(model, feeds), run(MODEL, feeds))


def test_all_else_of_the_file_is_read_as_protobuf_reads_it(tmp_path: Path) -> None:
    model = onnx.ModelProto.FromString(MODEL.SerializeToString())
    model.producer_name, model.doc_string = "someone", "words"
    model.metadata_props.add(key="k", value="v")
    found = read_mapped(saved(tmp_path, model))
    (weight,) = [tensor for tensor in found.graph.initializer if tensor.name == "w"]
    place = {entry.key: entry.value for entry in weight.external_data}
    content = (tmp_path / "m.onnx").read_bytes()[int(place["offset"]) :][: int(place["length"])]
    weight.ClearField("external_data")
    weight.ClearField("data_location")
    weight.raw_data = content
    assert sorted(t.name for t in found.graph.initializer) == ["b", "w"]
    found.graph.initializer.sort(key=lambda t: t.name)
    model.graph.initializer.sort(key=lambda t: t.name)
    assert found == model


def test_a_model_read_so_can_be_written_again(tmp_path: Path) -> None:
    model = load_model(saved(tmp_path))
    (tmp_path / "out").mkdir()
    save_model(model, tmp_path / "out" / "inside.onnx", limit=10**9)
    save_model(model, tmp_path / "out" / "beside.onnx")
    (tmp_path / "m.onnx").unlink()
    feeds = {"x": X, "c": np.array(True)}
    for name in ("inside", "beside"):
        again = load_model(tmp_path / "out" / f"{name}.onnx")
        assert_close(run(again, feeds), run(MODEL, feeds))


def test_a_truncated_file_is_never_taken_for_a_model(tmp_path: Path) -> None:
    data = MODEL.SerializeToString()
    path = tmp_path / "m.onnx"
    for end in range(0, len(data), max(len(data) // 10, 1)):
        path.write_bytes(data[:end])
        with pytest.raises(QuantflowError, match="QF201"):
            read_onnx(path, {})


@given(st.binary(max_size=300))
def test_what_is_no_protobuf_is_an_error_and_nothing_worse(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "m.onnx"
    path.write_bytes(b"\x3a" + data)
    try:
        expected = onnx.ModelProto.FromString(path.read_bytes())
    except DecodeError:
        with pytest.raises((DecodeError, ValueError)):
            read_mapped(path)
    else:
        assert read_mapped(path) == expected


def test_data_that_does_not_fill_its_shape_is_said(tmp_path: Path) -> None:
    model = onnx.ModelProto.FromString(MODEL.SerializeToString())
    (weight,) = [tensor for tensor in model.graph.initializer if tensor.name == "w"]
    weight.dims[0] = 41
    with pytest.raises(QuantflowError, match="QF201") as caught:
        load_model(saved(tmp_path, model))
    assert "'w' takes 4920 bytes and is given 4800" in caught.value.problems[0].what


def test_numbers_that_are_not_raw_stay_in_the_model(tmp_path: Path) -> None:
    model = onnx.ModelProto.FromString(MODEL.SerializeToString())
    (weight,) = [tensor for tensor in model.graph.initializer if tensor.name == "w"]
    values = onnx.numpy_helper.to_array(weight)
    weight.ClearField("raw_data")
    weight.float_data.extend(values.ravel().tolist())
    assert weight.data_type == TensorProto.FLOAT
    feeds = {"x": X, "c": np.array(True)}
    assert_close(run(load_model(saved(tmp_path, model)), feeds), run(MODEL, feeds))
