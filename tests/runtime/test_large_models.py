"""Sessions of models whose weights lie in files: mapped where they are, one large one at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantflow.artifacts.weight_file import refer_to, weights_of, write_weights
from quantflow.runtime import onnxruntime_runner
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.session_model import session_model

W = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
X = np.random.default_rng(1).normal(size=(3, 64)).astype(np.float32)


def net(factor: float = 1.0) -> ir.Model:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Reshape", ["m", "shape"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        [
            numpy_helper.from_array(W * np.float32(factor), "w"),
            numpy_helper.from_array(np.int64([-1, 64]), "shape"),
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    return ir.from_proto(helper.make_model(graph, opset_imports=opset, ir_version=9))


def filed(folder: Path, factor: float = 1.0) -> ir.Model:
    """The model with its weight in a file."""
    model = net(factor)
    large = [tensor for tensor in weights_of(model) if tensor.nbytes > 1024]
    return refer_to(model, write_weights(large, folder / "w"), "w", folder)


def expected(factor: float = 1.0) -> np.ndarray:
    return X.astype(np.float64) @ (W * np.float32(factor))


def test_a_weight_in_a_file_is_not_in_what_the_session_is_made_of(tmp_path: Path) -> None:
    prepared = session_model(filed(tmp_path))
    assert len(prepared.content) < 1000 < prepared.size and not prepared.large
    assert OnnxRuntimeRunner(filed(tmp_path)).run({"x": X})["y"] == pytest.approx(
        expected(), abs=1e-4
    )


def test_weights_may_lie_in_files_of_several_folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = filed(tmp_path / "a"), filed(tmp_path / "b", 2.0)
    other = second.graph.initializers["w"]
    other.name = "v"
    first.graph.register_initializer(ir.val("v", const_value=other.const_value))
    total = ir.node("Add", [first.graph.initializers["w"], first.graph.initializers["v"]])
    total.outputs[0].name = "sum"
    first.graph.insert_before(first.graph[0], total)
    first.graph[1].replace_input_with(1, total.outputs[0])
    found = OnnxRuntimeRunner(first, optimize=False).run({"x": X})["y"]
    assert found == pytest.approx(expected(3.0), abs=1e-3)


def test_many_weights_in_memory_are_written_to_a_file_that_goes_with_the_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("quantflow.runtime.session_model.IN_MEMORY_BYTES", 1000)
    runner = OnnxRuntimeRunner(net())
    assert [path.name for path in tmp_path.glob("quantflow-*/*")] == ["weights"]
    assert runner.run({"x": X})["y"] == pytest.approx(expected(), abs=1e-4)
    del runner
    assert list(tmp_path.iterdir()) == []


def test_sessions_of_large_models_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quantflow.runtime.session_model.LARGE_BYTES", 1000)
    monkeypatch.setattr(onnxruntime_runner, "LARGE_BYTES", 1000)
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    runners = [OnnxRuntimeRunner(filed(f, k)) for k, f in enumerate(folders, 1)]

    def mapped() -> list[str]:
        maps = Path("/proc/self/maps").read_text()
        return [folder.name for folder in folders if f"{folder}/w" in maps]

    assert mapped() == ["c"]
    for k in (1, 2, 3, 1):
        found = runners[k - 1].run({"x": X})["y"]
        assert found == pytest.approx(expected(k), abs=1e-3)
        assert mapped() == ["abc"[k - 1]]
    del runners
    assert mapped() == []


def test_small_models_beside_each_other_all_stay_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    runners = [OnnxRuntimeRunner(filed(tmp_path)), OnnxRuntimeRunner(filed(tmp_path / "a", 2.0))]
    sessions = [runner._session for runner in runners]  # pyright: ignore[reportPrivateUsage]
    for runner in runners:
        runner.run({"x": X})
    assert [r._session for r in runners] == sessions  # pyright: ignore[reportPrivateUsage]


def test_results_do_not_depend_on_where_the_weights_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = OnnxRuntimeRunner(net()).run({"x": X})["y"]
    assert np.array_equal(inside, OnnxRuntimeRunner(filed(tmp_path)).run({"x": X})["y"])
    monkeypatch.setattr("quantflow.runtime.session_model.IN_MEMORY_BYTES", 0)
    assert np.array_equal(inside, OnnxRuntimeRunner(net()).run({"x": X})["y"])
