"""onnxruntime sessions: results by name, settings that decide bytes, and errors in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantflow.config import RuntimeConfig
from quantflow.errors import ExitCode, QuantflowError
from quantflow.runtime.batching import batches
from quantflow.runtime.onnxruntime_build import build_identity
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner


def net(width: int = 24) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.standard_normal((width, 8)).astype(np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"], "m"),
        helper.make_node("ReduceMean", ["y"], ["z"], "r", axes=[1], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", width])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, None),
        ],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def failing(model: bytes | Path, **config: Any) -> QuantflowError:
    with pytest.raises(QuantflowError) as caught:
        OnnxRuntimeRunner(model, RuntimeConfig(**config))
    return caught.value


def test_outputs_come_by_name_in_the_models_order() -> None:
    model = net()
    runner = OnnxRuntimeRunner(model.SerializeToString())
    x = np.random.default_rng(1).standard_normal((2, 5, 24)).astype(np.float32)
    weight = numpy_helper.to_array(model.graph.initializer[0])
    result = runner.run({"x": x})
    assert runner.outputs == ("y", "z") == tuple(result)
    assert result["y"] == pytest.approx(x @ weight, abs=1e-5)
    assert result["z"] == pytest.approx((x @ weight).mean(1), abs=1e-5)


def test_a_model_may_be_a_path_with_external_data(tmp_path: Path) -> None:
    model = net()
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    x = np.ones((1, 2, 24), np.float32)
    outside = OnnxRuntimeRunner(tmp_path / "m.onnx").run({"x": x})
    inside = OnnxRuntimeRunner(net().SerializeToString()).run({"x": x})
    assert np.array_equal(outside["y"], inside["y"])


@pytest.mark.parametrize("provider", ["cuda", "cann"])
def test_a_provider_that_is_missing_is_an_error_of_the_environment(provider: str) -> None:
    error = failing(net().SerializeToString(), provider=provider)
    (problem,) = error.problems
    assert problem.code == "QF601" and problem.where == "runtime.provider"
    assert error.exit_code is ExitCode.ENVIRONMENT and '"cpu"' in problem.fix


@pytest.mark.parametrize("data", [b"", b"not a model"])
def test_bytes_that_are_no_model_are_said(data: bytes) -> None:
    assert failing(data).problems[0].code == "QF205"


def test_a_model_that_onnxruntime_refuses_is_said_with_its_message(tmp_path: Path) -> None:
    model = net()
    model.graph.node[0].op_type = "NoSuchOp"
    error = failing(model.SerializeToString())
    assert error.problems[0].code == "QF205" and "NoSuchOp" in error.problems[0].what
    assert failing(tmp_path / "none.onnx").problems[0].where == str(tmp_path / "none.onnx")


def one_node(op_type: str, constant: np.ndarray[Any, Any]) -> bytes:
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x", "c"], ["y"], "here")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(constant, "c")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def test_a_model_that_stops_on_its_inputs_names_the_node_and_their_shapes(
    capfd: pytest.CaptureFixture[str],
) -> None:
    runner = OnnxRuntimeRunner(one_node("Add", np.ones((4, 3), np.float32)))
    assert runner.run({"x": np.ones((4, 3), np.float32)})["y"].shape == (4, 3)
    with pytest.raises(QuantflowError) as caught:
        runner.run({"x": np.ones((8, 3), np.float32)})
    (problem,) = caught.value.problems
    assert problem.code == "QF213" and problem.where == "Add here, inputs x (8, 3)"
    assert "4 by 8" in problem.what and "[model.inputs.NAME]" in problem.fix
    assert capfd.readouterr().err == ""  # nothing of onnxruntime's own


def test_a_model_that_asks_for_too_much_memory_says_so() -> None:
    runner = OnnxRuntimeRunner(one_node("Expand", np.array([2**40, 3])))
    with pytest.raises(QuantflowError) as caught:
        runner.run({"x": np.ones((1, 3), np.float32)})
    (problem,) = caught.value.problems
    assert problem.code == "QF607" and problem.where.startswith("Expand here")


def test_unsigned_times_signed_products_do_not_saturate() -> None:
    # 255 * 127 * 64 = 2,072,640; processors with AVX2 alone saturate without the session option.
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"], "m")],
        "g",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [4, 8])],
        [numpy_helper.from_array(np.full((64, 8), 127, np.int8), "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (y,) = (
        OnnxRuntimeRunner(model.SerializeToString())
        .run({"a": np.full((4, 64), 255, np.uint8)})
        .values()
    )
    assert (y == 255 * 127 * 64).all()


def test_a_sample_gives_the_same_bytes_in_any_company() -> None:
    # C5: one sample, or eleven, in a compute batch of four.
    runner = OnnxRuntimeRunner(net().SerializeToString(), RuntimeConfig(threads=1))
    rng = np.random.default_rng(2)
    data = [{"x": rng.standard_normal((5, 24)).astype(np.float32)} for _ in range(11)]

    def results(chosen: list[dict[str, Any]]) -> list[bytes]:
        found = dict[int, bytes]()
        for batch in batches(chosen, 4):
            outputs = runner.run(batch.feeds)
            for row, index in enumerate(batch.indices):
                found[index] = b"".join(array[row].tobytes() for array in outputs.values())
        return [found[i] for i in range(len(chosen))]

    everything = results(data)
    for count in (1, 3, 9):
        assert results(data[:count]) == everything[:count]


def test_the_build_names_its_version() -> None:
    import onnxruntime

    assert onnxruntime.__version__ in build_identity()
