"""A whole model shifted: by the middle of every channel, where its layers lose less for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from quantflow.artifacts.optimize_record import OptimizeRecord
from quantflow.artifacts.ranges_record import RangesRecord
from quantflow.artifacts.sample_set import SampleSet
from tests.graph.models import assert_close, build, rand, run
from tests.sensitivity.projects import run_one, run_until, write_project

FOLDER = "25_optimize"
ONLY = tuple(f"optimize.{x}=false" for x in ("smoothing", "rounding", "bias_correction"))
AWAY = np.float32([9, -8, 7, -9, 8, -7, 9, -8])
"""Where the middle of every channel lies, more or less."""


def model() -> onnx.ModelProto:
    """A block between normalization and residual, whose channels lie around `AWAY`."""
    return build(
        "(float[batch,8] x) => (float[batch,8] y) "
        "{ n = LayerNormalization<axis=-1>(x, g, b) a = MatMul(n, w1) c = Add(a, b1) "
        "r = Relu(c) o = MatMul(r, w2) p = Add(o, b2) y = Add(p, n) }",
        {
            "g": np.abs(rand(8)) + np.float32(0.5), "b": AWAY, "w1": rand(8, 12, seed=1),
            "b1": rand(12, seed=2), "w2": rand(12, 8, seed=3), "b2": rand(8, seed=4),
        },
    )  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("off centre")
    config = write_project(folder, model(), {"x": rand(500, 8, seed=9)}, {"batch": 4})
    config.write_text(config.read_text().replace("samples = 12", "samples = 400"))
    run_until("20_ranges", config)
    return folder


def optimized(base: Path, to: Path, *overrides: str) -> tuple[OptimizeRecord, Path]:
    shutil.copytree(base, to / "copy")
    run_one(FOLDER, to / "copy" / "quantflow.toml", *overrides)
    folder = to / "copy" / "run" / FOLDER
    return OptimizeRecord.read(folder / "optimize.json"), folder


def constants(path: Path) -> dict[str, np.ndarray]:
    return {x.name: numpy_helper.to_array(x) for x in onnx.load(path).graph.initializer}


def test_every_channel_loses_its_middle(base: Path, tmp_path: Path) -> None:
    record, folder = optimized(base, tmp_path, *ONLY)
    (entry,) = record.shifted
    (result,) = record.passes
    assert entry.tensor == "n" and result.name == "shift" and result.kept
    # The middle by definition, of what the float model computes of the calibration set.
    samples = SampleSet(folder.parent / "10_set" / "calibration")
    x = np.stack([sample["x"] for sample in samples])
    spread = x - x.mean(axis=-1, keepdims=True)
    normal = spread / np.sqrt(x.var(axis=-1, keepdims=True) + np.float32(1e-5))
    before = constants(base / "run/00_model/model.onnx")
    values = normal * before["g"] + before["b"]
    low, high = values.min(axis=0), values.max(axis=0)
    after = constants(folder / "model.onnx")
    middle = (low + high) / 2
    np.testing.assert_allclose(before["b"] - after["b"], middle, rtol=1e-4)
    np.testing.assert_allclose(after["b2"] - before["b2"], middle, rtol=1e-4)
    back = middle @ before["n_a.weight"]
    np.testing.assert_allclose(after["b1"] - before["b1"], back, rtol=1e-3, atol=1e-4)
    assert entry.span_before == pytest.approx(max(high.max(), 0) - min(low.min(), 0), rel=1e-4)
    assert entry.span_after == pytest.approx((high - low).max(), rel=1e-4)
    (found,) = (
        x for x in RangesRecord.read(folder / "ranges.json").ranges if x.tensor == entry.tensor
    )
    assert found.high - found.low < 1.2 * entry.span_after < 0.5 * entry.span_before


def test_the_float_model_computes_what_it_did(base: Path, tmp_path: Path) -> None:
    record, folder = optimized(base, tmp_path)
    assert [x.name for x in record.passes][:1] == ["shift"] and record.shifted
    assert record.float_difference < 1e-5
    feeds = {"x": rand(16, 8, seed=77)}
    assert_close(run(onnx.load(folder / "model.onnx"), feeds), run(model(), feeds), 1e-5)


def test_it_can_be_switched_off(base: Path, tmp_path: Path) -> None:
    record, _ = optimized(base, tmp_path, "optimize.shift=false")
    assert record.passes and "shift" not in {x.name for x in record.passes}
    assert record.shifted == ()


def test_the_exported_model_is_the_shifted_one(base: Path, tmp_path: Path) -> None:
    _, folder = optimized(base, tmp_path, *ONLY)
    run_one("40_onnx", folder.parents[1] / "quantflow.toml", *ONLY, 'plan.policy="none"')
    exported = constants(folder.parent / "40_onnx" / "deploy_batch4.onnx")
    shifted = constants(folder / "model.onnx")["b"]
    biases = [x for x in exported.values() if x.shape == (8,) and x.dtype.kind == "f"]
    assert any(np.allclose(x.astype(np.float32), shifted, atol=1e-2) for x in biases)
    assert not any(np.allclose(x.astype(np.float32), AWAY, atol=1e-2) for x in biases)
