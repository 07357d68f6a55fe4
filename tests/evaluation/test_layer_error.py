"""The error of every INT8 layer, by its own fault and by all before it, computed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quantflow.artifacts.comparison import LayerError
from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.config import RuntimeConfig, TargetConfig
from quantflow.evaluation.layer_error import SAMPLES, layer_errors
from quantflow.export.deploy import deploy_model
from quantflow.export.factors import layer_factors
from quantflow.progress import no_progress
from tests.export.builders import ascend_quant, make_plan, make_ranges
from tests.graph.masked_blocks import MASK_NAME, Described, describe
from tests.graph.models import build, rand

W0, W1 = rand(4, 6, seed=1), rand(6, 3, seed=2)
BOUNDS = {"x": (-3.0, 3.0), "r": (0.0, 5.0)}

Sample = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    described: Described
    record: ModelRecord
    deploy: ir.Model
    export: ExportRecord

    def errors(self, samples: Sequence[Sample]) -> dict[str, LayerError]:
        found = layer_errors(
            self.described.static, self.deploy, self.record, self.export, frozenset(), samples,
            self.described.dims, TargetConfig(fp19_dequant=False), RuntimeConfig(threads=1),
            no_progress,
        )  # fmt: skip
        return {error.layer: error for error in found}


def case(
    proto: onnx.ModelProto,
    bounds: Mapping[str, tuple[float, float]],
    dims: dict[str, int],
    *,
    mask: str | None = None,
    fp16: Sequence[str] = (),
) -> Case:
    described = describe(proto, dims, mask)
    record = described.record
    plan = make_plan(record, fp16)
    factors = layer_factors(
        described.static, record, make_ranges(bounds), plan, granularity="per-channel"
    )
    export = ExportRecord(
        opset=18, int8_mac_fraction=1, boundaries=4, layers=factors, buckets=(), amct_record=""
    )
    return Case(described, record, deploy_model(described.static, record, factors), export)


def two_layers() -> onnx.ModelProto:
    return build(
        "(float[batch,4] x) => (float[batch,3] y) "
        "{ h = MatMul(x, w0) r = Relu(h) y = MatMul(r, w1) }",
        {"w0": W0, "w1": W1},
    )


def fp16(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(np.float32)


def int8_layer(x: np.ndarray, weight: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Quantize, multiply integers, dequantize, and round to fp16, by definition."""
    scale = np.float32((bounds[1] - bounds[0]) / 255)
    zero = int(np.clip(-128 - np.rint(bounds[0] / float(scale)), -128, 127))
    scale_w = (np.abs(weight).max(0) / np.float32(127)).astype(np.float32)
    weight_q = np.rint(weight / scale_w).astype(np.int64)
    quantized = ascend_quant(x, float(np.float32(1) / scale), zero)
    accumulator = (quantized - zero) @ weight_q
    return fp16(accumulator.astype(np.float32) * (scale * scale_w))


def sqnr(exact: np.ndarray, found: np.ndarray) -> float:
    signal = float((exact.astype(np.float64) ** 2).sum())
    return 10 * np.log10(signal / float(((exact.astype(np.float64) - found) ** 2).sum()))


def test_own_errors_and_accumulated_ones_are_those_of_numpy() -> None:
    samples = [{"x": rand(4, seed=i)} for i in range(6)]
    x = np.stack([sample["x"] for sample in samples])
    h = x @ W0
    r = np.maximum(h, 0)
    y = r @ W1
    found = case(two_layers(), BOUNDS, {"batch": 2}).errors(samples)
    h8 = int8_layer(fp16(x), W0, BOUNDS["x"])
    assert found["n_h"].sqnr_db == pytest.approx(sqnr(h, h8), abs=1e-3)
    assert found["n_h"].own_sqnr_db == pytest.approx(sqnr(h, h8), abs=1e-3)
    alone = int8_layer(r, W1, BOUNDS["r"])
    after = int8_layer(np.maximum(h8, 0), W1, BOUNDS["r"])
    assert found["n_y"].own_sqnr_db == pytest.approx(sqnr(y, alone), abs=1e-3)
    assert found["n_y"].sqnr_db == pytest.approx(sqnr(y, after), abs=1e-3)
    assert [error.group for error in found.values()] == ["n_h", "n_y"]


def test_every_sample_s_own_figure_is_that_of_numpy() -> None:
    samples = [{"x": (1 + i) * rand(4, seed=i)} for i in range(5)]  # the last batch repeats one
    found = case(two_layers(), BOUNDS, {"batch": 2}).errors(samples)
    for i, sample in enumerate(samples):
        x = sample["x"][None]
        h8 = int8_layer(fp16(x), W0, BOUNDS["x"])
        y8 = int8_layer(np.maximum(h8, 0), W1, BOUNDS["r"])
        y = np.maximum(x @ W0, 0) @ W1
        assert found["n_h"].sample_sqnr_db[i] == pytest.approx(sqnr(x @ W0, h8), abs=1e-3)
        assert found["n_y"].sample_sqnr_db[i] == pytest.approx(sqnr(y, y8), abs=1e-3)
    assert {len(error.sample_sqnr_db) for error in found.values()} == {len(samples)}


def test_what_does_not_keep_samples_apart_has_no_figures_of_single_ones() -> None:
    proto = build(
        "(float[batch,2,4] x) => (float[batch,2,6] y) "
        "{ r = Reshape(x, rows) h = MatMul(r, w0) y = Reshape(h, back) }",
        {"w0": W0, "rows": np.int64([-1, 4]), "back": np.int64([-1, 2, 6])},
    )
    samples = [{"x": rand(2, 4, seed=i)} for i in range(4)]
    bounds = {"r": BOUNDS["x"]}
    (together,) = case(proto, bounds, {"batch": 2}).errors(samples).values()
    assert len(together.sample_sqnr_db) == 4 and np.isnan(together.sample_sqnr_db).all()
    (apart,) = case(proto, bounds, {"batch": 1}).errors(samples).values()
    for sample, found in zip(samples, apart.sample_sqnr_db, strict=True):
        h8 = int8_layer(fp16(sample["x"]), W0, BOUNDS["x"])
        assert found == pytest.approx(sqnr(sample["x"] @ W0, h8), abs=1e-3)
    assert apart.sqnr_db == pytest.approx(together.sqnr_db, abs=1e-6)


def test_padding_and_repeated_samples_are_left_out() -> None:
    proto = build(
        "(float[batch,length,4] x, int64[batch,length] attention_mask) => "
        "(float[batch,length,3] y) { h = MatMul(x, w0) r = Relu(h) z = MatMul(r, w1) "
        "m = Cast<to=1>(attention_mask) u = Unsqueeze(m, last) y = Mul(z, u) }",
        {"w0": W0, "w1": W1, "last": np.int64([-1])},
    )
    # Three samples in batches of two; whatever stands under a 0 of the mask is wild.
    samples = list[dict[str, np.ndarray]]()
    for i, mask in enumerate(([1, 1, 0], [1, 0, 1, 1], [1, 1])):
        x = rand(len(mask), 4, seed=i)
        x[np.array(mask) == 0] = 90
        samples.append({"x": x, MASK_NAME: np.int64(mask)})
    found = case(proto, BOUNDS, {"batch": 2, "length": 4}, mask=MASK_NAME).errors(samples)
    x = np.concatenate([s["x"][s[MASK_NAME] == 1] for s in samples])
    h8 = int8_layer(fp16(x), W0, BOUNDS["x"])
    assert found["n_h"].sqnr_db == pytest.approx(sqnr(x @ W0, h8), abs=1e-3)
    for i, sample in enumerate(samples):
        x = sample["x"][sample[MASK_NAME] == 1]
        alone = sqnr(x @ W0, int8_layer(fp16(x), W0, BOUNDS["x"]))
        assert found["n_h"].sample_sqnr_db[i] == pytest.approx(alone, abs=1e-3)


def test_a_layer_that_reads_another_layer_s_output_directly() -> None:
    # As ALBERT's embedding projection and the attention behind it.
    proto = build(
        "(float[batch,4] x) => (float[batch,3] y) { h = MatMul(x, w0) y = MatMul(h, w1) }",
        {"w0": W0, "w1": W1},
    )
    bounds = {"x": (-3.0, 3.0), "h": (-6.0, 6.0)}
    samples = [{"x": rand(4, seed=i)} for i in range(4)]
    x = np.stack([sample["x"] for sample in samples])
    found = case(proto, bounds, {"batch": 2}).errors(samples)
    h = x @ W0
    h8 = int8_layer(fp16(x), W0, bounds["x"])
    assert found["n_h"].own_sqnr_db == pytest.approx(sqnr(h, h8), abs=1e-3)
    y8 = int8_layer(h, W1, bounds["h"])
    assert found["n_y"].own_sqnr_db == pytest.approx(sqnr(h @ W1, y8), abs=1e-3)


def test_only_int8_layers_are_listed_and_none_is_no_work() -> None:
    samples = [{"x": rand(4)}]
    assert list(case(two_layers(), BOUNDS, {"batch": 2}, fp16=["n_h"]).errors(samples)) == ["n_y"]
    assert case(two_layers(), BOUNDS, {"batch": 2}, fp16=["n_h", "n_y"]).errors(samples) == {}


def test_no_more_samples_are_read_than_are_used() -> None:
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield {"x": rand(4, seed=read)}

    found = case(two_layers(), BOUNDS, {"batch": 4}).errors(endless())  # type: ignore[arg-type]
    assert read == SAMPLES and set(found) == {"n_h", "n_y"}


def test_errors_of_convolutions_are_those_of_their_own_integers() -> None:
    proto = build(
        "(float[batch,3,6,6] x) => (float[batch,4,3,3] y) "
        "{ h = Conv<pads=[1,1,1,1]>(x, w0) r = Relu(h) y = Conv<strides=[2,2], group=4>(r, w1) }",
        {"w0": rand(4, 3, 3, 3), "w1": rand(4, 1, 2, 2, seed=1)},
    )
    samples = [{"x": rand(3, 6, 6, seed=i)} for i in range(3)]
    measured = case(proto, {"x": (-4.0, 4.0), "r": (0.0, 25.0)}, {"batch": 2})
    found = measured.errors(samples)
    x = np.stack([sample["x"] for sample in samples])
    # Rounding noise passes through a layer as its input does, and the weights add some.
    step = 8 / 255
    noise = np.square(x).mean() / (step**2 / 12)
    assert 10 * np.log10(noise) - 4 < found["n_h"].own_sqnr_db < 10 * np.log10(noise) + 1
    assert found["n_y"].sqnr_db < found["n_y"].own_sqnr_db
