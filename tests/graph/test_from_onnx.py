"""ONNX files from elsewhere: inputs settled, damage and foreign paths refused in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from quantflow.config import InputConfig
from quantflow.errors import Problem, QuantflowError
from quantflow.graph.canonical import canonicalize
from quantflow.graph.from_onnx import external_files, read_onnx
from quantflow.graph.model_io import load_model, model_bytes, save_model

from .models import assert_close, build, rand, run

W = rand(4, 3)
TWO = "(float[?,4] x) => (float[?,3] y) { y = MatMul(x, w) }"


def saved(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def shapes(model: ir.Model) -> dict[str, list[Any]]:
    return {
        str(value.name): [d if isinstance(d, int) else d.value for d in value.shape or ()]
        for value in model.graph.inputs
    }


def refused(path: Path, **inputs: InputConfig) -> list[Problem]:
    with pytest.raises(QuantflowError) as caught:
        read_onnx(path, inputs)
    return list(caught.value.problems)


# --- inputs ------------------------------------------------------------------------------------


def test_free_dimensions_are_named(tmp_path: Path) -> None:
    model = build(
        "(float[?,4,?] x, int64[n] k, float[2,3] f, float[?] b) => (float[?,4,?] y) "
        "{ y = Identity(x) }"
    )
    assert shapes(read_onnx(saved(tmp_path, model), {})) == {
        "x": ["batch", 4, "x_2"],
        "k": ["n"],
        "f": [2, 3],
        "b": ["batch"],
    }


def test_the_configuration_names_dimensions_and_fixes_them(tmp_path: Path) -> None:
    model = build("(float[n,m,4] x, float[n] k) => (float[n,m,4] y) { y = Relu(x) }")
    inputs = {"x": InputConfig(shape=("batch", 7, 4))}
    found = shapes(read_onnx(saved(tmp_path, model), inputs))
    assert found == {"x": ["batch", 7, 4], "k": ["n"]}


def test_a_fixed_dimension_can_be_freed_where_the_graph_allows_it(tmp_path: Path) -> None:
    # The file's value_info says 1 throughout; believing it would fold Shape to a constant.
    model = build(
        "(float[1,4] x) => (float[1,2,2] y) { r = Relu(x) s = Shape<start=0, end=1>(r) "
        "t = Concat<axis=0>(s, rest) y = Reshape(r, t) }",
        {"rest": np.int64([2, 2])},
    )
    model.graph.value_info.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, [1, 4]))
    path = saved(tmp_path, model)
    found = read_onnx(path, {"x": InputConfig(shape=("batch", 4))})
    canonicalize(found, "2026")
    x = rand(3, 4)
    assert run(found, {"x": x})["y"] == pytest.approx(np.maximum(x, 0).reshape(3, 2, 2))
    output = found.graph.outputs[0].shape
    assert output is not None and not isinstance(output[0], int)


def test_what_the_configuration_leaves_out_is_as_in_the_file(tmp_path: Path) -> None:
    model = build("(float[n,m,4] x, int64[n,m] k) => (float[n,m,4] y) { y = Relu(x) }")
    path = saved(tmp_path, model)
    found = read_onnx(path, {"x": InputConfig(mask=False), "k": InputConfig(shape=("b", 7))})
    assert shapes(found) == {"x": ["n", "m", 4], "k": ["b", 7]}
    assert [value.dtype for value in found.graph.inputs] == [ir.DataType.FLOAT, ir.DataType.INT64]
    (problem,) = refused(path, k=InputConfig(dtype="float32"))
    assert problem.where == "model.inputs.k.dtype"


def test_names_given_by_the_configuration_reach_the_outputs(tmp_path: Path) -> None:
    model = build("(float[n,m,4] x) => (float[n,m,3] y) { y = MatMul(x, w) }", {"w": W})
    inputs = {"x": InputConfig(shape=("batch", "length", 4))}
    found = read_onnx(saved(tmp_path, model), inputs)
    canonicalize(found, "2026")
    shape = found.graph.outputs[0].shape
    assert shape is not None
    assert [d if isinstance(d, int) else d.value for d in shape] == ["batch", "length", 3]


def test_everything_that_does_not_fit_the_file_is_named_at_once(tmp_path: Path) -> None:
    model = build(
        "(float[n,4] pixels, int64[n] ids, float[n] z) => (float[n,4] y) { y = Relu(pixels) }"
    )
    found = refused(
        saved(tmp_path, model),
        pixel=InputConfig(shape=("n", 4)),
        pixels=InputConfig(shape=("n",)),
        ids=InputConfig(dtype="int32", shape=("n",)),
        z=InputConfig(shape=("n",)),
    )
    assert {p.code for p in found} == {"QF211"}
    assert {p.where for p in found} == {
        "model.inputs.pixel", "model.inputs.pixels.shape", "model.inputs.ids.dtype",
    }  # fmt: skip
    assert any("'pixels'" in p.fix for p in found)


def test_an_input_without_a_type_is_said(tmp_path: Path) -> None:
    model = build(TWO, {"w": W})
    model.graph.input[0].type.tensor_type.ClearField("shape")
    (problem,) = refused(saved(tmp_path, model))
    assert problem.code == "QF211" and problem.where == "model.inputs.x"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("() => (float[4] y) { y = Constant<value = float[4] {1, 2, 3, 4}>() }", "no inputs"),
        ("(float[0,4] x) => (float[0,4] y) { y = Relu(x) }", "dimension of 0"),
    ],
)
def test_inputs_without_a_batch_to_fill_are_said(tmp_path: Path, text: str, word: str) -> None:
    (problem,) = refused(saved(tmp_path, build(text)))
    assert problem.code in ("QF201", "QF211") and word in problem.what


def test_dimensions_of_minus_one_and_question_marks_are_free_each_on_its_own(
    tmp_path: Path,
) -> None:
    model = build("(float[b,3,h,w] x) => (float[b,3,h,w] y) { y = Relu(x) }")
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = -1
        value.type.tensor_type.shape.dim[2].dim_param = "?"
        value.type.tensor_type.shape.dim[3].dim_param = "?"
    path = saved(tmp_path, model)
    found = read_onnx(path, {})
    assert shapes(found) == {"x": ["batch", 3, "x_2", "x_3"]}
    canonicalize(found, "2026")
    output = found.graph.outputs[0].shape
    assert output is not None
    assert [x if isinstance(x, int) else x.value for x in output] == ["batch", 3, "x_2", "x_3"]
    given = read_onnx(path, {"x": InputConfig(shape=("n", 3, 32, "width"))})
    assert shapes(given) == {"x": ["n", 3, 32, "width"]}


def test_an_initializer_that_is_an_input_too_need_not_be_configured(tmp_path: Path) -> None:
    model = build("(float[n,4] x, float[4,3] w) => (float[n,3] y) { y = MatMul(x, w) }", {"w": W})
    path = saved(tmp_path, model)
    read_onnx(path, {"x": InputConfig(shape=("n", 4))})
    (problem,) = refused(path, w=InputConfig(shape=(4, 3)))
    assert problem.where == "model.inputs.w"


def test_nodes_out_of_order_are_sorted(tmp_path: Path) -> None:
    # C41
    model = build("(float[n,4] x) => (float[n,4] y) { y = Relu(t) t = Tanh(x) }")
    found = read_onnx(saved(tmp_path, model), {})
    assert [node.op_type for node in found.graph] == ["Tanh", "Relu"]


# --- damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"hello, this is text", b"<html></html>", b"\xff" * 100])
def test_a_file_that_is_no_onnx_is_said(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    assert [p.code for p in refused(path)] == ["QF201"]
    assert refused(tmp_path / "none.onnx")[0].where == str(tmp_path / "none.onnx")


def test_a_truncated_file_is_never_taken_for_a_model(tmp_path: Path) -> None:
    data = build(TWO, {"w": W}).SerializeToString()
    path = tmp_path / "m.onnx"

    def attempt() -> None:
        canonicalize(read_onnx(path, {}), "2026")

    for end in range(0, len(data), 5):
        path.write_bytes(data[:end])
        with pytest.raises(QuantflowError, match="QF201"):
            attempt()


@pytest.mark.parametrize(
    "text",
    [
        "(float[n,4] x) => (float[n,3] y) { y = MatMul(x, nowhere) }",
        "(float[n,4] x) => (float[n,3] nowhere) { y = Relu(x) }",
        "(float[n,4] x) => (float[n,4] y) { y = Add(x, t) t = Relu(y) }",
        "(float[n,4] x) => (float[n,4] y) { y = Relu(x) y = Tanh(x) }",
    ],
)
def test_a_graph_that_is_inconsistent_is_said(
    tmp_path: Path, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert [p.code for p in refused(saved(tmp_path, build(text)))] == ["QF201"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("inner", ["F", "G"])
def test_a_function_that_calls_itself_is_refused(tmp_path: Path, inner: str) -> None:
    model = build("(float[n,4] x) => (float[n,4] y) { y = own.F(x) }", own=1)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    for name, calls in {"F": inner, "G": "F"}.items():
        node = helper.make_node(calls, ["a"], ["b"], domain="own")
        function = helper.make_function("own", name, ["a"], ["b"], [node], imports)
        model.functions.append(function)
    (problem,) = refused(saved(tmp_path, model))
    assert problem.code == "QF201" and "calls itself: 'F' calls" in problem.what


# --- external data -----------------------------------------------------------------------------


def external(location: str, offset: int | None = None, length: int | None = None) -> TensorProto:
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4, 3], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return tensor


def as_initializer(tensor: TensorProto) -> onnx.ModelProto:
    model = build("(float[n,4] x) => (float[n,3] y) { y = MatMul(x, w) }")
    model.graph.initializer.append(tensor)
    return model


def as_constant(tensor: TensorProto) -> onnx.ModelProto:
    model = build("(float[n,4] x) => (float[n,3] y) { y = MatMul(x, w) }")
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    return model


def in_a_body(tensor: TensorProto) -> onnx.ModelProto:
    def body(name: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info(f"{name}1", TensorProto.FLOAT, None)
        node = helper.make_node("MatMul", ["x", "w"], [f"{name}1"])
        return helper.make_graph([node], name, [], [out], [tensor])

    model = build("(float[n,4] x, bool c) => (float[n,3] y) { y = Relu(x) }")
    del model.graph.node[:]
    node = helper.make_node("If", ["c"], ["y"], "i", then_branch=body("t"), else_branch=body("e"))
    model.graph.node.append(node)
    return model


Place = Callable[[TensorProto], onnx.ModelProto]
PLACES: list[Place] = [as_initializer, as_constant, in_a_body]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.bin").write_bytes(bytes(range(48)))
    (folder / "w.bin").write_bytes(W.tobytes())
    (folder / "sub" / "w.bin").write_bytes(b"\0" * 8 + W.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    return folder


@pytest.mark.parametrize("place", PLACES)
def test_external_data_beside_the_model_is_read_wherever_it_is_used(
    folder: Path, place: Place, tmp_path: Path
) -> None:
    # C22
    path = saved(folder, place(external("sub/w.bin", 8, 48)))
    assert external_files(path) == [folder / "sub" / "w.bin"]
    model = read_onnx(path, {})
    canonicalize(model, "2026")
    feeds = {"x": rand(2, 4)} | ({"c": np.array(True)} if place is in_a_body else {})
    assert_close(run(model, feeds), {"y": feeds["x"] @ W})
    # The canonical file holds its weights itself: the original's folder may go.
    save_model(model, tmp_path / "canonical.onnx")
    again = load_model(tmp_path / "canonical.onnx")
    assert external_files(tmp_path / "canonical.onnx") == []
    assert_close(run(again, feeds), {"y": feeds["x"] @ W})


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("location", ["../secret.bin", "link.bin", "sub/../../secret.bin", "ABS"])
def test_external_data_outside_the_folder_is_refused(
    folder: Path, place: Place, location: str
) -> None:
    location = location.replace("ABS", str(folder.parent / "secret.bin"))
    (problem,) = refused(saved(folder, place(external(location))))
    assert problem.code == "QF202" and location in problem.where


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("location", "offset", "length"),
    [("none.bin", None, None), ("sub", None, None), ("w.bin", 8, None), ("w.bin", 0, 1000),
     ("", None, None)],
)  # fmt: skip
def test_external_data_that_is_missing_or_too_short_is_said(
    folder: Path, place: Place, location: str, offset: int | None, length: int | None
) -> None:
    (problem,) = refused(saved(folder, place(external(location, offset, length))))
    assert problem.code == "QF201" and problem.where.startswith(str(folder / "m.onnx"))


def test_a_model_with_external_data_in_a_linked_folder_is_read(folder: Path) -> None:
    link = folder.parent / "linked"
    link.symlink_to(folder)
    saved(folder, as_initializer(external("w.bin")))
    assert model_bytes(read_onnx(link / "m.onnx", {}))


# --- writing -----------------------------------------------------------------------------------


def test_bytes_do_not_change_when_a_file_is_read_and_written(tmp_path: Path) -> None:
    model = read_onnx(saved(tmp_path, build(TWO, {"w": W})), {})
    canonicalize(model, "2026")
    save_model(model, tmp_path / "one.onnx")
    save_model(load_model(tmp_path / "one.onnx"), tmp_path / "two.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def test_weights_beyond_the_limit_go_to_a_file_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = rand(400, 3)
    model = ir.from_proto(
        build("(float[n,400] x) => (float[n,3] y) { y = MatMul(x, w) }", {"w": big})
    )
    monkeypatch.setattr("quantflow.graph.model_io.EXTERNAL_DATA_THRESHOLD", 1000)
    save_model(model, tmp_path / "big.onnx")
    assert external_files(tmp_path / "big.onnx") == [tmp_path / "big.onnx.data"]
    x = rand(2, 400)
    assert_close(run(load_model(tmp_path / "big.onnx"), {"x": x}), run(model, {"x": x}))
