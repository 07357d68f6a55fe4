"""Weights too large to fold or to fit into a proto: what is done to them is done when written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quantflow.graph.canonical import canonicalize
from quantflow.graph.from_onnx import read_onnx
from quantflow.graph.model_io import load_model, save_model
from quantflow.graph.passes.emulate_fp16 import emulate_fp16

from .models import assert_canonical, assert_close, build, canonical, ops, rand, run

NORM = {name: np.abs(rand(6, seed=i)) + 1 for i, name in enumerate(("s", "t", "mean", "var"))}


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every weight is large."""
    monkeypatch.setattr("quantflow.artifacts.weight_file.DERIVED_BYTES", 0)
    monkeypatch.setattr("quantflow.graph.set_aside.DERIVED_BYTES", 0)
    monkeypatch.setattr("quantflow.graph.bucket.FOLD_LIMIT_BYTES", 64)


def saved(folder: Path, model: onnx.ModelProto) -> Path:
    """A file whose weights lie in another one."""
    path = folder / "m.onnx"
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    onnx.save(copy, path, save_as_external_data=True, location="m.bin", size_threshold=64)
    return path


def test_a_transposed_weight_is_a_weight_and_who_else_reads_it_still_does() -> None:
    model = build(
        "(float[b,6] x, int64[b] i) => (float[b,5] y, float[b,6] e) "
        "{ t = Transpose<perm=[1,0]>(table) y = MatMul(x, t) e = Gather(table, i) }",
        {"table": rand(5, 6)},
    )
    result, _ = canonical(model)
    assert ops(result) == ["MatMul", "Gather"]
    feeds = {"x": rand(2, 6, seed=1), "i": np.int64([0, 4])}
    assert_close(run(result, feeds), run(model, feeds))


def test_a_transposition_may_be_an_output_and_leave_its_axes_unsaid() -> None:
    model = build(
        "(float[b,3] x) => (float[4,3,2] t, float[b,3] y) { t = Transpose(w) y = Relu(x) }",
        {"w": rand(2, 3, 4)},
    )
    result, _ = canonical(model)
    feeds = {"x": rand(2, 3, seed=1)}
    assert_close(run(result, feeds), run(model, feeds))


def test_every_pass_over_a_weight_leaves_it_to_be_computed_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(
        "(float[b,4] x) => (float[b,5] y) { g = Gemm<transB=1, alpha=0.5>(x, k, c) "
        "n = BatchNormalization(g, s, t, mean, var) r = Relu(n) u = Transpose<perm=[1,0]>(v) "
        "y = MatMul(r, u) }",
        {"k": rand(6, 4, seed=1), "c": rand(6, seed=2), "v": rand(5, 6, seed=3), **NORM},
    )
    read = read_onnx(saved(tmp_path, model), {})
    canonicalize(read, "2026")
    weights = [node.inputs[1] for node in read.graph if node.op_type in ("Gemm", "MatMul")]
    for value in weights:
        assert value is not None and isinstance(value.const_value, ir.LazyTensor)
    monkeypatch.setattr("quantflow.graph.model_io.EXTERNAL_DATA_THRESHOLD", 0)
    monkeypatch.setattr("quantflow.graph.model_io.SMALL_BYTES", 0)
    (tmp_path / "out").mkdir()
    save_model(read, tmp_path / "out" / "m.onnx")
    x = {"x": rand(3, 4, seed=5)}
    (tmp_path / "m.bin").unlink()
    assert_close(run(load_model(tmp_path / "out" / "m.onnx"), x), run(model, x), 1e-5)


@pytest.mark.parametrize("version", [9, 11, 12])
def test_an_old_opset_is_raised_with_the_weights_set_aside(tmp_path: Path, version: int) -> None:
    model = build(
        "(float[b,4] x) => (float[b,3] y) "
        "{ m = MatMul(x, w) a = Add(m, c) y = Softmax<axis=1>(a) }",
        {"w": rand(4, 3), "c": rand(3, seed=1)},
        opset=version,
    )
    read = read_onnx(saved(tmp_path, model), {})
    notes = canonicalize(read, "2026")
    assert_canonical(ir.from_proto(ir.to_proto(_inside(read))), 18)
    assert any(f"opset {version} raised" in note for note in notes)
    assert [value.name for value in read.graph.inputs] == ["x"]
    x = {"x": rand(2, 4, seed=2)}
    assert_close(run(read, x), run(model, x))


def _inside(model: ir.Model) -> ir.Model:
    """A copy with the weights in memory."""
    copy = model.clone()
    for value in copy.graph.initializers.values():
        assert value.const_value is not None
        value.const_value = ir.tensor(value.const_value.numpy().copy(), name=value.name)
    return copy


def test_weights_rounded_to_fp16_are_rounded_when_they_are_read(tmp_path: Path) -> None:
    w = rand(4, 3) * np.float32(1000) / 3
    model = build("(float[b,4] x) => (float[b,3] y) { y = MatMul(x, w) }", {"w": w})
    rounded = emulate_fp16(read_onnx(saved(tmp_path, model), {}), frozenset())
    tensor = rounded.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.LazyTensor)
    assert np.array_equal(tensor.numpy(), w.astype(np.float16).astype(np.float32))


def test_a_hard_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    model = build("(float[b,4] x) => (float[b,3] y) { y = MatMul(x, w) }", {"w": rand(4, 30)})
    path = saved(tmp_path / "model", model)
    (tmp_path / "elsewhere").hardlink_to(tmp_path / "model" / "m.bin")
    with pytest.raises(Exception, match=r"QF202.*hard link"):
        read_onnx(path, {})
