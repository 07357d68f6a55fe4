"""Features in the model's space, against a run of the same graph sample by sample (C27)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from quantflow.artifacts.model_record import ModelRecord
from quantflow.calibration.features.model import ModelFeatures, ModelSpace
from quantflow.config import RuntimeConfig
from quantflow.graph.edit import with_outputs
from quantflow.graph.layers import describe_model
from quantflow.ranges.collect import collect
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from tests.graph.blocks import WIDTH
from tests.graph.masked_blocks import MASK_NAME, masked_encoder
from tests.graph.models import build, canonical, rand, run

RUNTIME = RuntimeConfig(batch=4, threads=1)
Sample = dict[str, NDArray[Any]]


def _described(
    proto: onnx.ModelProto, dims: dict[str, int], mask: str | None = None
) -> tuple[ir.Model, ModelRecord]:
    model, notes = canonical(proto)
    return model, describe_model(model, dims, mask=mask, notes=notes)


def _measure(model: ir.Model, record: ModelRecord, samples: list[Sample]) -> ModelSpace:
    features = ModelFeatures.of(model, record, RUNTIME, [{"batch": 4, "length": 40}])
    return features(samples, *_names(samples), "test")


def _names(samples: list[Sample]) -> tuple[list[str], list[str]]:
    count = range(len(samples))
    return [f"s[{i}]" for i in count], [f"{i:064x}" for i in count]


def _absmax(space: ModelSpace, tensor: str) -> NDArray[np.float64]:
    return space.values[:, space.names.index(f"absmax({tensor})")]


def _texts(count: int, size: int) -> list[Sample]:
    """Samples of differing lengths, with huge values where there is padding."""
    rng = np.random.default_rng(0)
    found = list[Sample]()
    for real in rng.integers(1, size + 1, count):
        mask = (np.arange(size) < real).astype(np.int64)
        x = rng.standard_normal((size, WIDTH)).astype(np.float32)
        x[mask == 0] = 1e3
        found.append({"x": x, MASK_NAME: mask})
    return found


@pytest.mark.parametrize("size", [7, 40])  # 40 is cut to 32 where the rest is padding
def test_magnitudes_of_an_encoder_are_those_of_its_real_positions(size: int) -> None:
    model, record = _described(masked_encoder(1), {"batch": 1, "length": size}, MASK_NAME)
    samples = _texts(9, size)
    found = _measure(model, record, samples)
    whole = with_outputs(model, record.tensors)
    assert len(record.tensors) > 3
    for number, sample in enumerate(samples):
        values = run(whole, {name: array[None] for name, array in sample.items()})
        real = sample[MASK_NAME] == 1
        for tensor in record.tensors:
            seen = values[tensor][0]
            assert seen.shape[0] == size
            expected = np.abs(seen[real]).max()
            assert _absmax(found, tensor)[number] == pytest.approx(expected, rel=1e-4)


def test_statistics_are_those_that_stage_2_would_collect() -> None:
    model, record = _described(masked_encoder(1), {"batch": 1, "length": 7}, MASK_NAME)
    samples = _texts(9, 7)
    ids, digests = _names(samples)
    found = _measure(model, record, samples).tensors
    expected = collect(
        OnnxRuntimeRunner(with_outputs(model, record.tensors), RUNTIME),
        samples,
        ids=ids,
        digests=digests,
        tensors=record.tensors,
        padding={entry.tensor: entry.layout for entry in record.padding},
        mask_name=MASK_NAME,
        batch=4,
        rows=0,
    ).tensors
    assert set(found) == set(expected)
    for name, seen in expected.items():
        assert found[name].histogram.count == seen.histogram.count
        np.testing.assert_allclose(found[name].sample_low, seen.sample_low, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found[name].sample_high, seen.sample_high, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found[name].channel_absmax, seen.channel_absmax, rtol=1e-4)


@pytest.mark.parametrize("batch", ["batch", "3"])  # free, and fixed in the model
def test_images_have_magnitudes_of_their_own_in_any_batch(batch: str) -> None:
    weights = {"w0": rand(4, 3, 3, 3), "w1": rand(2, 4, 1, 1, seed=1)}
    body = "a0 = Conv(x, w0) a = Relu(a0) y = Conv(a, w1)"
    text = f"(float[{batch},3,6,6] x) => (float[{batch},2,4,4] y) {{ {body} }}"
    model, record = _described(build(text, weights), {"batch": 1})
    samples: list[Sample] = [{"x": rand(3, 6, 6, seed=i, scale=i + 1)} for i in range(8)]
    found = _measure(model, record, samples)
    assert found.tensors.keys() == {"x", "a"}
    images = build(f"(float[n,3,6,6] x) => (float[n,4,4,4] a) {{ {body} }}", weights)
    stacked = np.stack([sample["x"] for sample in samples])
    values = {"x": stacked, **run(images, {"x": stacked})}
    for tensor, array in values.items():
        expected = np.abs(array).max(axis=(1, 2, 3))
        np.testing.assert_allclose(_absmax(found, tensor), expected, rtol=1e-5)


def test_a_tensor_without_a_batch_axis_is_the_same_for_every_sample() -> None:
    weights = {"w": rand(5, 3), "k": rand(2, 5, seed=1)}
    text = "(float[batch,2] x) => (float[batch,3] y) { h = MatMul(x, k) y = MatMul(h, w) }"
    _, record = _described(build(text, weights), {"batch": 1})
    (group, *_) = record.groups
    table = group.model_copy(update={"tensor": "k", "name": "table"})
    record = record.model_copy(update={"groups": (table,)})
    features = ModelFeatures(_Constant(weights["k"]), record, 4)
    samples: list[Sample] = [{"x": rand(2, seed=i)} for i in range(6)]
    found = features(samples, *_names(samples), "test")
    np.testing.assert_allclose(_absmax(found, "k"), np.abs(weights["k"]).max(), rtol=1e-6)


class _Constant:
    """Gives a table that has no batch axis."""

    outputs = ("y", "k")

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def run(self, feeds: Any) -> dict[str, NDArray[Any]]:
        return {"y": np.zeros((len(feeds["x"]), 3), np.float32), "k": self.table}
