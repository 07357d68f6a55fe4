"""Ranges and scales of values that are not finite, constant, zero or wide."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.ranges_record import Fp16Report, RangesRecord
from quantflow.graph.model_io import load_model
from tests.cases.drawn import drawn
from tests.graph.models import build, rand, run
from tests.sensitivity.projects import run_one, run_until, write_project

NO_SEARCH = '[plan]\npolicy = "none"\n'
AS_IT_IS = """[optimize]
shift = false
smoothing = false
rounding = false
bias_correction = false
"""


@pytest.mark.parametrize("split", ["calibration", "heldout"])
@pytest.mark.parametrize(("bad", "nan", "inf"), [(-1.0, 1, 0), (0.0, 0, 1)])
def test_one_bad_element_of_one_sample_leaves_ranges_alone_and_is_located(
    tmp_path: Path, split: str, bad: float, nan: int, inf: int
) -> None:
    # C11: the square root of -1, and one over the root of 0.
    x = np.abs(rand(40, 6, seed=1)) + np.float32(0.01)
    model = build(
        "(float[batch,6] x) => (float[batch,3] y) "
        "{ s = Sqrt(x) i = Reciprocal(s) y = MatMul(i, w) }",
        {"w": rand(6, 3)},
        opset=17,
    )
    config = write_project(tmp_path, model, {"x": x}, {"batch": 2})
    run_until("10_set", config)
    number = drawn(tmp_path, split)[4]  # which ones are drawn depends on the seed alone
    x[number, 2] = bad
    np.savez(tmp_path / "candidates.npz", x=x)
    run_until("20_ranges", config)
    calibrated = drawn(tmp_path)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = 1 / np.sqrt(x[calibrated])
    finite = values[np.isfinite(values)]
    names = ("minmax", "kl", "percentile", "mse", "auto")
    for estimator in names:
        run_one("20_ranges", config, f"quantization.estimator={estimator}")
        record = RangesRecord.read(tmp_path / "run" / "20_ranges" / "ranges.json")
        (found,) = record.nonfinite
        assert (found.tensor, found.split, found.nan, found.inf) == ("i", split, nan, inf)
        assert found.samples == (f"candidates[{number}]",)
        entry = record.of("i")
        assert 0 <= entry.low < entry.high <= np.float32(finite.max() * (1 + 1e-6))
        if estimator == "minmax":
            assert (entry.low, entry.high) == pytest.approx((finite.min(), finite.max()), rel=1e-6)


def test_zeros_constants_and_dead_channels_have_usable_scales_in_every_file(
    tmp_path: Path,
) -> None:
    # C12: z is all zero, c constant, v one value a sample, and channel 2 of wc is dead.
    weight = np.concatenate([rand(6, 2, seed=4), np.zeros((6, 1), np.float32)], axis=1)
    model = build(
        "(float[batch,6] x) => (float[batch,3] a, float[batch,3] b, float[batch,3] d) { "
        "z = Mul(x, zero) c = Add(z, seven) a0 = MatMul(z, wz) a = Add(a0, bz) b = MatMul(c, wc) "
        "v = ReduceMax<axes=[1], keepdims=1>(x) d = MatMul(v, wv) }",
        {
            "zero": np.array(0, np.float32), "seven": np.array(-7.3, np.float32),
            "wz": rand(6, 3), "wc": weight, "wv": rand(1, 3, seed=5), "bz": rand(3, seed=6),
        },
        opset=17,
    )  # fmt: skip
    config = write_project(tmp_path, model, {"x": rand(40, 6, seed=3)}, {"batch": 1}, NO_SEARCH)
    run_until("45_compare", config)
    ranges = RangesRecord.read(tmp_path / "run" / "20_ranges" / "ranges.json")
    for entry in ranges.ranges:
        assert np.isfinite(entry.params.scale) and entry.params.scale > 0
    # The constant is one of the levels.
    constant = ranges.of("c").params
    levels = (np.arange(-128, 128) - constant.zero_point) * np.float64(constant.scale)
    assert np.abs(levels + 7.3).min() < 7.3 * 2**-22
    export = ExportRecord.read(tmp_path / "run" / "40_onnx" / "export.json")
    assert [layer.precision for layer in export.layers] == ["int8"] * 3
    assert all(np.isfinite(layer.scale_w).all() for layer in export.layers)
    twin = load_model(tmp_path / "run" / "40_onnx" / export.buckets[0].qdq)
    x = rand(1, 6, seed=9)
    found, exact = run(twin, {"x": x}), run(model, {"x": x})
    # Of zeros nothing but the bias is left, to half a step of its storage.
    steps = np.array(export.layers[0].scale_w) * export.layers[0].scale_d
    assert (np.abs(found["a"] - exact["a"]) <= 0.501 * steps).all()
    assert found["b"][0, 2] == 0
    # A constant input is exact, so all error is of the weights: half a step of each, six times.
    step = np.abs(weight).max(axis=0) / 127
    assert (np.abs(found["b"] - exact["b"]) <= 6 * 7.3 * 0.501 * step + 1e-5).all()


def test_a_decomposed_layer_norm_that_overflows_fp16_is_reported_and_becomes_an_island(
    tmp_path: Path,
) -> None:
    # C46: 300 squared is 9e4, beyond fp16, while neither input nor output leaves it.
    model = build(
        "(float[batch,8] x) => (float[batch,4] y) { "
        "m = ReduceMean<axes=[1], keepdims=1>(x) d = Sub(x, m) q = Mul(d, d) "
        "v = ReduceMean<axes=[1], keepdims=1>(q) e = Add(v, eps) r = Sqrt(e) n = Div(d, r) "
        "y = MatMul(n, w) }",
        {"eps": np.array(1e-5, np.float32), "w": rand(8, 4)},
        opset=17,
    )
    x = rand(40, 8, seed=1)
    x[:, 0] += 300
    config = write_project(tmp_path, model, {"x": x}, {"batch": 2}, NO_SEARCH)
    run_until("45_compare", config)
    report = Fp16Report.read(tmp_path / "run" / "20_ranges" / "fp16.json")
    overflowing = {tensor.tensor for tensor in report.tensors if tensor.overflow}
    centred = x.astype(np.float64) - x.mean(axis=1, keepdims=True)
    assert (centred**2).max() > 65504 > np.abs(x).max()
    assert overflowing == {"q"}
    assert {island.node for island in report.islands} == {"n_q", "n_v"}
    comparison = json.loads((tmp_path / "run" / "45_compare" / "comparison.json").read_text())
    assert comparison["fidelity"]["fp16"]["cosine_min"] > 0.9999
    # In plain fp16 the variance is infinite, so the normalized values are zero.
    assert not comparison["fidelity"]["fp16_plain"]["cosine_mean"] > 0.5
    # The parser makes a node of another name of a ReduceMean, and keeps that of a Mul.
    keep = next((tmp_path / "run" / "40_onnx").glob("keep_dtype_*.txt")).read_text().split()
    assert sorted(keep) == ["n_q", "n_v_ReduceMean"]


def test_three_layouts_of_one_product_have_the_same_deploy_integers(tmp_path: Path) -> None:
    # C16: output channel 0 is 100 times the others.
    weight = rand(16, 6, seed=2)
    weight[:, 0] *= 100
    texts = {
        "MatMul": ("y = MatMul(x, w)", weight),
        "transB=0": ("y = Gemm(x, w)", weight),
        "transB=1": ("y = Gemm<transB=1>(x, w)", np.ascontiguousarray(weight.T)),
    }
    integers, scales = list[np.ndarray](), list[tuple[float, ...]]()
    x = rand(40, 16, seed=3)
    for number, (body, array) in enumerate(texts.values()):
        text = f"(float[batch,16] x) => (float[batch,6] y) {{ {body} }}"
        model = build(text, {"w": array}, opset=17)
        directory = tmp_path / str(number)
        settings = AS_IT_IS + NO_SEARCH
        config = write_project(directory, model, {"x": x}, {"batch": 1}, settings)
        run_until("40_onnx", config)
        export = ExportRecord.read(directory / "run" / "40_onnx" / "export.json")
        deploy = load_model(directory / "run" / "40_onnx" / export.buckets[0].deploy)
        stored = [v for v in deploy.graph.initializers.values() if v.dtype == ir.DataType.INT8]
        (value,) = stored
        assert value.const_value is not None
        integers.append(value.const_value.numpy())
        scales.append(export.layers[0].scale_w)
        np.testing.assert_allclose(scales[-1], np.abs(weight).max(axis=0) / 127, rtol=1e-6)
        steps = np.array(scales[-1])
        assert (np.abs(integers[-1] * steps - weight) <= 0.501 * steps).all()
    assert all(np.array_equal(array, integers[0]) for array in integers)
    assert scales[0] == scales[1] == scales[2]
