"""`quantflow lint` on files that other tools made, on hostile ones and on large ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.conftest import Call
from tests.target.deploy_models import deploy_model, node
from tests.target.test_lint_files import relu_model


def write(path: Path, model: onnx.ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def qdq_model() -> onnx.ModelProto:
    """What onnxruntime and others write: QuantizeLinear and DequantizeLinear around a MatMul."""
    value = helper.make_tensor_value_info
    scalars = {"s": np.float32(0.1), "z": np.int8(0)}
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quantize"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="dequantize"),
            helper.make_node("MatMul", ["d", "w"], ["y"], name="dense"),
        ],
        "qdq",
        [value("x", TensorProto.FLOAT, [2, 4])],
        [value("y", TensorProto.FLOAT, [2, 3])],
        [
            numpy_helper.from_array(np.ones((4, 3), np.float32), "w"),
            *(numpy_helper.from_array(np.asarray(array), name) for name, array in scalars.items()),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_a_deploy_model_is_clean(call: Call, tmp_path: Path) -> None:
    answer = call("lint", write(tmp_path / "deploy.onnx", deploy_model()))
    assert answer.code == 0 and answer.err == ""
    assert answer.out.splitlines()[-1] == "CLEAN deploy.onnx | 0 errors, 0 warnings | CANN 2026"
    assert "2 INT8 layers" in answer.out


def test_a_float_model_is_clean_and_said_to_be_one(call: Call, tmp_path: Path) -> None:
    answer = call("lint", write(tmp_path / "float.onnx", relu_model()))
    assert answer.code == 0 and "no INT8 layers" in answer.out


def test_a_qdq_model_fails_with_the_codes_of_atc_and_the_way_out(
    call: Call, tmp_path: Path
) -> None:
    # C39: the commonest cause of E19010.
    path = write(tmp_path / "qdq.onnx", qdq_model())
    assert call("lint", path).code == 1
    found = call("lint", path, "--json").json["findings"]
    errors = [entry for entry in found if entry["level"] == "error"]
    assert {entry["where"] for entry in errors} == {"QuantizeLinear", "DequantizeLinear"}
    for entry in errors:
        assert "E16002" in entry["what"] and "E19010" in entry["what"]
        assert "quantflow from-qdq" in entry["fix"]


def test_findings_are_sorted_worst_first_and_counted(call: Call, tmp_path: Path) -> None:
    model = deploy_model()
    node(model, "dq").ClearField("attribute")  # a warning
    node(model, "relu").name = ""  # an error
    path = write(tmp_path / "model.onnx", model)
    answer = call("lint", path, "--json")
    tree = answer.json
    assert answer.code == 1
    assert [entry["level"] for entry in tree["findings"]] == ["error", "warning", "info"]
    assert tree["counts"] == {"error": 1, "warning": 1, "info": 1}
    assert tree["file"] == str(path) and tree["cann"] == "2026"
    last = call("lint", path).out.splitlines()[-1]
    assert last == "FAILED model.onnx | 1 error, 1 warning | CANN 2026"


def test_warnings_alone_pass(call: Call, tmp_path: Path) -> None:
    model = deploy_model()
    node(model, "dq").ClearField("attribute")
    answer = call("lint", write(tmp_path / "model.onnx", model))
    assert answer.code == 0 and answer.out.splitlines()[-1].startswith("PASSED")


def test_the_cann_version_decides_the_opset(call: Call, tmp_path: Path) -> None:
    path = write(tmp_path / "deploy.onnx", deploy_model(opset=18))
    assert call("lint", path, "--cann", "2026").code == 0
    assert call("lint", path, "--cann", "8.0").code == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--cann", "7.0"], "QF109"),
        (["--chip", "310P3"], "QF110"),
        (["--dtypes", "nowhere.txt"], "QF104"),
    ],
)
def test_bad_usage_exits_2(call: Call, tmp_path: Path, options: list[str], code: str) -> None:
    path = write(tmp_path / "deploy.onnx", deploy_model())
    answer = call("lint", path, *options, "--json")
    assert answer.code == 2 and answer.json["errors"][0]["code"] == code


def test_a_file_of_node_names_is_checked_against_the_model(call: Call, tmp_path: Path) -> None:
    path = write(tmp_path / "deploy.onnx", deploy_model())
    names = tmp_path / "keep.txt"
    names.write_text("relu\n")
    assert call("lint", path, "--dtypes", names).code == 0
    names.write_text("gemm\n")  # which the parser calls gemm_MatMulV2
    answer = call("lint", path, "--dtypes", names)
    assert answer.code == 1 and "'gemm' matches no node" in answer.out


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize(
    "content",
    [b"hello world", truncated(deploy_model().SerializeToString()), bytes(range(256)) * 20],
    ids=["text", "truncated", "noise"],
)
def test_a_file_that_is_no_model_is_one_clear_error(
    call: Call, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    answer = call("lint", path)
    assert answer.code == 2 and answer.out == ""
    assert answer.err.count("QF201 ") == 1 and "Traceback" not in answer.err


def test_a_missing_file_and_a_folder_are_one_clear_error(call: Call, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.onnx", tmp_path):
        answer = call("lint", path)
        assert answer.code == 2 and answer.err.startswith("QF201 not a readable ONNX model: ")


def test_an_empty_file_fails(call: Call, tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    answer = call("lint", tmp_path / "empty.onnx")
    assert answer.code == 1 and "no graph" in answer.out


def test_external_data_outside_the_folder_is_refused(call: Call, tmp_path: Path) -> None:
    model = deploy_model()
    weight = model.graph.initializer[0]
    onnx.external_data_helper.set_external_data(weight, "../secret.bin", length=12)
    weight.ClearField("raw_data")
    answer = call("lint", write(tmp_path / "model.onnx", model))
    assert answer.code == 2 and "QF202" in answer.err


def test_weights_beyond_2_gb_stay_on_disk(tmp_path: Path) -> None:
    model = deploy_model()
    shape = (16384, 131072 + 1024)  # int8: 2.17 GB, in a file with a hole
    weight = next(x for x in model.graph.initializer if x.name == "w")
    weight.dims[:] = shape
    length = shape[0] * shape[1]
    onnx.external_data_helper.set_external_data(weight, "weights.bin", 0, length)
    weight.ClearField("raw_data")
    with (tmp_path / "weights.bin").open("wb") as stream:
        stream.truncate(length)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = shape[0]
    columns = {"b": np.zeros(shape[1], np.int32), "s": np.full(shape[1], 0x3F000000, np.uint64)}
    for tensor in model.graph.initializer:
        if tensor.name in columns:
            tensor.CopyFrom(numpy_helper.from_array(columns[tensor.name], tensor.name))
    path = write(tmp_path / "large.onnx", model)
    script = (
        # Not ru_maxrss, which a process inherits from the one that starts it.
        "import sys\nfrom quantflow.__main__ import main\n"
        "code = main(sys.argv[1:])\n"
        "status = open('/proc/self/status').read()\n"
        "print(code, status.split('VmHWM:')[1].split()[0])\n"
    )
    command = [sys.executable, "-c", script, "lint", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    code, peak = done.stdout.split()[-2:]
    assert code == "0", done.stdout
    assert int(peak) < 1_000_000  # kilobytes
