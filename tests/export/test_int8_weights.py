"""Integers that are given: written, read again, and exactly what the files hold."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from safetensors.numpy import save_file

from quantflow.errors import QuantflowError
from quantflow.export.deploy import deploy_model
from quantflow.export.factors import layer_factors
from quantflow.export.int8_weights import LayerWeights, load_int8_weights, save_int8_weights
from quantflow.export.qdq import qdq_model
from quantflow.graph.layers import describe_model
from tests.graph.models import build, rand

from .builders import array_of, make_plan, make_ranges

ROOT = {"a/weight": np.zeros((2, 3), np.int8), "a/scales": np.ones(3, np.float32)}


def drawn(depth: int, width: int, seed: int, *, scales: int, bias: bool) -> LayerWeights:
    rng = np.random.default_rng(seed)
    return LayerWeights(
        rng.integers(-127, 128, (depth, width)).astype(np.int8),
        np.exp(rng.normal(size=scales)).astype(np.float32) / 64,
        rng.normal(size=width).astype(np.float32) if bias else None,
    )


# --- the file --------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path: Path) -> None:
    weights = {
        "encoder/0/weight": drawn(4, 3, 0, scales=3, bias=True),
        "Umlaut ä, scales": drawn(4, 3, 1, scales=1, bias=False),
        "a": dataclasses.replace(drawn(3, 5, 2, scales=5, bias=True),
                                 weight=np.arange(15, dtype=np.int8).reshape(5, 3).T),
    }  # fmt: skip
    save_int8_weights(tmp_path / "w", weights)
    found = load_int8_weights(tmp_path / "w")
    assert list(found) == sorted(weights)
    for name, entry in weights.items():
        for part in ("weight", "scales", "bias"):
            ours, theirs = getattr(entry, part), getattr(found[name], part)
            assert (ours is None) == (theirs is None)
            if ours is not None:
                assert theirs.dtype == ours.dtype and np.array_equal(theirs, ours)
    save_int8_weights(tmp_path / "again", dict(reversed(weights.items())))
    assert (tmp_path / "again").read_bytes() == (tmp_path / "w").read_bytes()


def test_no_file_is_no_weights(tmp_path: Path) -> None:
    assert load_int8_weights(tmp_path / "w") == {}


@pytest.mark.parametrize("arrays", [
    {"a/weight": ROOT["a/weight"]},
    {"a/scales": ROOT["a/scales"]},
    {**ROOT, "a/other": ROOT["a/scales"]},
    {**ROOT, "a/weight": np.zeros((2, 3), np.uint8)},
    {**ROOT, "a/weight": np.zeros(3, np.int8)},
    {**ROOT, "a/scales": np.ones(2, np.float32)},
    {**ROOT, "a/scales": np.ones(3, np.float64)},
    {**ROOT, "a/scales": np.ones((1, 3), np.float32)},
    {**ROOT, "a/bias": np.ones(1, np.float32)},
    {**ROOT, "a/bias": np.ones(3, np.int32)},
])  # fmt: skip
def test_arrays_that_are_no_weights_are_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray]
) -> None:
    save_file(arrays, tmp_path / "w")
    with pytest.raises(QuantflowError) as caught:
        load_int8_weights(tmp_path / "w")
    (problem,) = caught.value.problems
    assert problem.code == "QF506" and problem.where == str(tmp_path / "w") and problem.fix


def test_a_damaged_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "w"
    save_int8_weights(path, {"a": drawn(4, 3, 0, scales=3, bias=True)})
    data = path.read_bytes()
    for size in (0, 1, 7, 8, 20, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(QuantflowError, match="QF506"):
            load_int8_weights(path)
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(QuantflowError, match="QF506"):
        load_int8_weights(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(QuantflowError, match="QF506"):
        load_int8_weights(path)


# --- what models hold ---------------------------------------------------------------------------

BOUNDS = {"x": (-3.0, 4.0), "t": (-1.0, 1.0), "r": (0.0, 5.0)}
CONSTANTS = {
    "w0": rand(8, 6), "b0": rand(6, seed=1), "w1": rand(6, 6, seed=2), "c1": rand(6, seed=3),
    "w2": rand(6, 4, seed=4),
}  # fmt: skip


def chain() -> ir.Model:
    """A Gemm, a MatMul whose bias is an Add, and a MatMul without one."""
    return ir.from_proto(build(
        "(float[2,8] x) => (float[2,4] y) { a = Gemm(x, w0, b0) t = Tanh(a) "
        "m = MatMul(t, w1) c = Add(m, c1) r = Relu(c) y = MatMul(r, w2) }", CONSTANTS,
    ))  # fmt: skip


GIVEN = {
    "n_a": drawn(8, 6, 0, scales=6, bias=True),
    "n_m": drawn(6, 6, 1, scales=6, bias=True),
}


def written(model: ir.Model, given: dict[str, LayerWeights], kind: str) -> ir.Model:
    record = describe_model(model, {}, mask=None, notes=[])
    plan, ranges = make_plan(record), make_ranges(BOUNDS)
    factors = layer_factors(model, record, ranges, plan, "per-channel", given)
    for entry in factors:
        if entry.layer in given:
            assert entry.precision == "int8"
            assert np.array_equal(np.float32(entry.scale_w), given[entry.layer].scales)
    if kind == "deploy":
        return deploy_model(model, record, factors, given)
    return qdq_model(model, record, factors, weights=given)


def nearest(weight: np.ndarray) -> np.ndarray:
    scales = np.abs(weight).max(axis=0) / np.float32(127)
    return np.clip(np.rint(weight / scales), -127, 127).astype(np.int8)


def held(model: ir.Model, name: str) -> np.ndarray:
    """The int8 initializer that a layer's node reads, through a DequantizeLinear if need be."""
    node = next(x for x in model.graph if x.name == name)
    value = node.inputs[1]
    assert value is not None
    if (producer := value.producer()) is not None:
        value = producer.inputs[0]
    array = array_of(model, value)
    assert array.dtype == np.int8
    return array


def input_scale(low: float, high: float) -> np.float32:
    return np.float32((high - low) / 255)


@pytest.mark.parametrize("kind", ["deploy", "qdq"])
def test_files_hold_exactly_the_given_integers(kind: str) -> None:
    found = written(chain(), GIVEN, kind)
    assert np.array_equal(held(found, "n_a"), GIVEN["n_a"].weight)
    assert np.array_equal(held(found, "n_m"), GIVEN["n_m"].weight)
    assert np.array_equal(held(found, "n_y"), nearest(CONSTANTS["w2"]))


@pytest.mark.parametrize("kind", ["deploy", "qdq"])
def test_given_biases_are_in_steps_of_both_scales(kind: str) -> None:
    found = written(chain(), GIVEN, kind)
    integers = [
        x.const_value.numpy()
        for x in found.graph.initializers.values()
        if x.const_value is not None and x.const_value.dtype == ir.DataType.INT32
    ]
    for name, (low, high) in (("n_a", BOUNDS["x"]), ("n_m", BOUNDS["t"])):
        entry = GIVEN[name]
        assert entry.bias is not None
        expected = entry.bias / (input_scale(low, high).astype(np.float64) * entry.scales)
        close = [x for x in integers if x.shape == (6,) and np.abs(x - expected).max() <= 1.001]
        assert len(close) == 1, name


def test_without_given_weights_all_are_rounded_to_nearest() -> None:
    found = written(chain(), {}, "deploy")
    for name, weight in (("n_a", "w0"), ("n_m", "w1"), ("n_y", "w2")):
        assert np.array_equal(held(found, name), nearest(CONSTANTS[weight]))


@pytest.mark.parametrize("kind", ["deploy", "qdq"])
def test_a_grouped_convolution_holds_its_matrix_column_by_column(kind: str) -> None:
    model = ir.from_proto(build(
        "(float[1,4,5,5] x) => (float[1,6,3,3] y) { y = Conv<group=2>(x, w, b) }",
        {"w": rand(6, 2, 3, 3), "b": rand(6)},
    ))  # fmt: skip
    given = drawn(18, 6, 3, scales=6, bias=True)
    found = written(model, {"n_y": given}, kind)
    weight = held(found, "n_y")
    assert weight.shape == (6, 2, 3, 3)
    for channel in range(6):
        assert np.array_equal(weight[channel].ravel(), given.weight[:, channel])


def test_scales_that_are_not_the_layers_are_refused() -> None:
    model = chain()
    record = describe_model(model, {}, mask=None, notes=[])
    plan = make_plan(record)
    factors = layer_factors(model, record, make_ranges(BOUNDS), plan, "per-channel")
    for write in (
        lambda: deploy_model(model, record, factors, GIVEN),
        lambda: qdq_model(model, record, factors, weights=GIVEN),
    ):
        with pytest.raises(QuantflowError, match="QF543"):
            write()
