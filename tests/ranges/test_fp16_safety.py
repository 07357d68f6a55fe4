"""What fp16 cannot hold is found in every float tensor, and its nodes stay in fp32."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from quantflow.artifacts.ranges_record import Fp16Tensor
from quantflow.graph.edit import copy_model
from quantflow.graph.model_io import model_bytes
from quantflow.ranges import fp16_watch
from quantflow.ranges.fp16_safety import find_islands, measure_fp16
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner

WIDTH = 8


def _model(
    nodes: list[onnx.NodeProto],
    constants: dict[str, Any],
    output: str,
    *,
    opset: int = 18,
    batch: str | int = "batch",
    typed: bool = True,
) -> ir.Model:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, WIDTH])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    if typed:
        model = onnx.shape_inference.infer_shapes(model)
    return ir.from_proto(model)


def _square_mean(opset: int, **settings: Any) -> ir.Model:
    """x -> scaled -> scaled^2 -> mean: a decomposed RMSNorm whose square overflows (C46)."""
    axes = [-1]
    mean = (
        helper.make_node("ReduceMean", ["squared", "axes"], ["mean"], "mean")
        if opset >= 18
        else helper.make_node("ReduceMean", ["squared"], ["mean"], "mean", axes=axes)
    )
    constants: dict[str, Any] = {"factor": np.float32(100), "two": np.float32(2)}
    if opset >= 18:
        constants["axes"] = np.array(axes, np.int64)
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["scaled"], "scale"),
        helper.make_node("Pow", ["scaled", "two"], ["squared"], "pow"),
        mean,
        helper.make_node("Sqrt", ["mean"], ["root"], "sqrt"),
        helper.make_node("Div", ["scaled", "root"], ["normal"], "divide"),
        helper.make_node("Tanh", ["normal"], ["y"], "tanh"),
    ]
    return _model(nodes, constants, "y", opset=opset, **settings)


def _measure(
    model: ir.Model, rows: list[NDArray[np.float32]], batch: int = 2
) -> dict[str, Fp16Tensor]:
    samples = [{"x": row} for row in rows]
    return {t.tensor: t for t in measure_fp16(model, OnnxRuntimeRunner, samples, batch=batch)}


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("settings", [{}, {"batch": 2}, {"typed": False}])
def test_a_square_that_overflows_becomes_an_island(opset: int, settings: dict[str, Any]) -> None:
    # C46: 10 * 100 squared is 1e6 while everything before and behind it fits.
    model = _square_mean(opset, **settings)
    rows = [np.full(WIDTH, value, np.float32) for value in (10, 0.5, 1)]
    found = _measure(model, rows)
    assert list(found) == ["x", "scaled", "squared", "mean", "root", "normal", "y"]
    assert {name for name, tensor in found.items() if tensor.overflow} == {"squared", "mean"}
    assert found["squared"].absmax == 1e6
    assert (found["squared"].node, found["squared"].op_type) == ("pow", "Pow")
    assert (found["x"].node, found["x"].op_type) == ("", "")
    islands = find_islands(model, found.values())
    assert [island.node for island in islands] == ["pow", "mean", "sqrt"]
    assert {island.tensor for island in islands} == {"squared", "mean"}
    assert all(island.absmax == 1e6 for island in islands)


def test_shares_and_extremes_are_those_of_the_values() -> None:
    model = _model([helper.make_node("Neg", ["x"], ["y"], "negate")], {}, "y")
    rows = [
        np.float32([0, 1, 5e-5, -5e-5, 2e-8, -2e-8, 1e-3, -70000]),
        np.float32([0, 0, 0, 0, 0, 0, 0, 6.2e-5]),
        np.float32([1e-45, 1, 1, 1, 1, 1, 1, 1]),
    ]
    values = np.stack(rows)
    with np.errstate(over="ignore"):
        half = values.astype(np.float16)
    flushed = ((values != 0) & (half == 0)).mean()
    subnormal = ((values != 0) & (np.abs(values) < np.finfo(np.float16).tiny)).mean()
    for tensor in _measure(model, rows, batch=1).values():
        assert tensor.absmax == 70000
        assert tensor.overflow
        assert tensor.flushed_fraction == pytest.approx(flushed)
        assert tensor.subnormal_fraction == pytest.approx(subnormal)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_an_overflow(value: float) -> None:
    model = _model([helper.make_node("Abs", ["x"], ["y"], "abs")], {}, "y")
    row = np.ones(WIDTH, np.float32)
    row[3] = value
    found = _measure(model, [np.zeros(WIDTH, np.float32), row])
    assert found["x"].overflow and found["y"].overflow
    assert found["x"].absmax == 1  # of the finite values
    assert [island.node for island in find_islands(model, found.values())] == ["abs"]


def test_65504_fits_and_what_exceeds_it_does_not() -> None:
    model = _model([helper.make_node("Identity", ["x"], ["y"], "same")], {}, "y")
    assert not _measure(model, [np.full(WIDTH, 65504, np.float32)])["y"].overflow
    assert _measure(model, [np.full(WIDTH, 65508, np.float32)])["y"].overflow


def test_large_initializers_make_islands_of_their_readers_only() -> None:
    nodes = [
        helper.make_node("Add", ["x", "shift"], ["a"], "fits"),
        helper.make_node("Where", ["flag", "a", "lowest"], ["b"], "mask"),
        helper.make_node("Tanh", ["b"], ["c"], "tanh"),
        helper.make_node("Shape", ["huge"], ["s"], "shape"),
        helper.make_node("Gather", ["c", "many"], ["y"], "gather", axis=1),
    ]
    constants = {
        "shift": np.float32(3),
        "flag": np.ones(WIDTH, bool),
        "lowest": np.float32(-3.4e38),
        "huge": np.full((2, 2), np.inf, np.float32),
        "many": np.array([0, 1, 1_000_000], np.int64) % 3,
    }
    model = _model(nodes, constants, "y")
    found = _measure(model, [np.ones(WIDTH, np.float32)])
    (island,) = find_islands(model, found.values())
    assert (island.node, island.tensor) == ("mask", "lowest")
    assert island.absmax == pytest.approx(3.4e38)


@pytest.mark.parametrize("sign", [-1, 1])
def test_an_initializer_of_65504_fits_and_one_that_exceeds_it_does_not(sign: int) -> None:
    nodes = [helper.make_node("Min" if sign > 0 else "Max", ["x", "limit"], ["y"], "limit")]
    for magnitude, islands in ((65504, []), (65508, ["limit"])):
        model = _model(nodes, {"limit": np.float32([0] * 7 + [sign * magnitude])}, "y")
        found = _measure(model, [np.ones(WIDTH, np.float32)])
        assert not any(tensor.overflow for tensor in found.values())
        assert [island.node for island in find_islands(model, found.values())] == islands


def test_the_model_itself_is_not_changed() -> None:
    model = _square_mean(18, typed=False)
    before = model_bytes(copy_model(model))
    _measure(model, [np.ones(WIDTH, np.float32)])
    assert model_bytes(model) == before


@pytest.mark.parametrize("settings", [{}, {"batch": 2}])
def test_measures_do_not_depend_on_the_pieces_of_the_model(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    rows = [(rng.standard_normal(WIDTH) * 10.0**-e).astype(np.float32) for e in range(5)]
    whole, built = _measure(_square_mean(18, **settings), rows), list[ir.Model]()
    monkeypatch.setattr(fp16_watch, "FETCHED_BYTES", 1)

    def make(part: ir.Model) -> OnnxRuntimeRunner:
        built.append(part)
        return OnnxRuntimeRunner(part)

    seen = list[int]()
    parts = measure_fp16(
        _square_mean(18, **settings),
        make,
        [{"x": row} for row in rows],
        batch=2,
        progress=lambda _, done, total: seen.append(done if total == 5 else -1),
    )
    assert {tensor.tensor: tensor for tensor in parts} == whole
    assert len(built) == 6
    assert seen == sorted(seen) and seen[-1] == 5 and seen.count(5) == 1


def test_samples_of_several_lengths_are_measured_together() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["y"], "negate")]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "length"])],
    )
    opset = [helper.make_opsetid("", 18)]
    model = ir.from_proto(helper.make_model(graph, opset_imports=opset, ir_version=8))
    rows = [np.array(row, np.float32) for row in ([1, 2e-8], [1e5, 1, 1, 1e-5], [0, 1])]
    found = _measure(model, rows)["y"]
    assert found.absmax == np.float32(1e5)
    assert found.flushed_fraction == pytest.approx(0.5 / 3)
    assert found.subnormal_fraction == pytest.approx((0.5 + 0.25) / 3)


def test_sequences_are_not_measured() -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"], "both"),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], "concat", axis=0),
    ]
    assert list(_measure(_model(nodes, {}, "y"), [np.ones(WIDTH, np.float32)])) == ["x", "y"]


def test_integer_tensors_are_not_measured() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], "to_int", to=TensorProto.INT64),
        helper.make_node("Mul", ["i", "large"], ["j"], "multiply"),
        helper.make_node("Cast", ["j"], ["y"], "back", to=TensorProto.FLOAT),
    ]
    model = _model(nodes, {"large": np.array(1_000_000, np.int64)}, "y")
    found = _measure(model, [np.ones(WIDTH, np.float32)])
    assert list(found) == ["x", "y"]
    assert [island.node for island in find_islands(model, found.values())] == ["back"]
