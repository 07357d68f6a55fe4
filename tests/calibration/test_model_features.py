"""Features in the model's space: outputs projected, extremes of every tensor, padding left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from quantflow.artifacts.model_record import Group, ModelRecord, PaddedTensor, TensorInfo
from quantflow.calibration.features.model import DIRECTIONS, ModelFeatures, ModelSpace
from quantflow.config import RuntimeConfig

from .tiny_tokenizer import text_inputs


class _Runner:
    """A model whose output is a linear function of the tokens, position by position."""

    outputs = ("hidden",)

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor
        self.lengths: list[int] = []

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        ids = feeds["input_ids"].astype(np.float32)
        self.lengths.append(ids.shape[1])
        return {"hidden": np.stack([ids, ids * ids], axis=-1) * self.factor}


def _model() -> ModelRecord:
    hidden = TensorInfo(name="hidden", dtype="float32", shape=("batch", "length", 2))
    return ModelRecord(
        opset=18,
        inputs=tuple(text_inputs("input_ids", "attention_mask")),
        outputs=(hidden,),
        layers=(),
        groups=(),
        padding=(),
    )


def _padded(rng: np.random.Generator, real: int, size: int) -> dict[str, NDArray[Any]]:
    ids = np.full(size, 999)
    ids[:real] = rng.integers(0, 9, real)
    return {"input_ids": ids, "attention_mask": (np.arange(size) < real).astype(np.int64)}


def _space(features: ModelFeatures, samples: list[dict[str, NDArray[Any]]]) -> ModelSpace:
    names = [f"s[{i}]" for i in range(len(samples))]
    return features(samples, names, [f"{i:064x}" for i in range(len(samples))], "test")


def _values(features: ModelFeatures, samples: list[dict[str, NDArray[Any]]]) -> NDArray[np.float64]:
    return _space(features, samples).values


def test_outputs_are_averaged_over_real_positions_and_projected() -> None:
    rng = np.random.default_rng(0)
    samples = [_padded(rng, int(real), 100) for real in rng.integers(1, 90, 11)]
    runner = _Runner()
    features = ModelFeatures(runner, _model(), 4)
    found = _values(features, samples)
    assert features.names[1] == "hidden[1]"
    assert found.shape == (11, DIRECTIONS)
    means = np.array(
        [[np.mean(x["input_ids"][x["attention_mask"] > 0] ** k) for k in (1, 2)] for x in samples]
    )
    # A linear map of the means: the same for all samples, and of full rank.
    mapped, *_ = np.linalg.lstsq(means, found, rcond=None)
    np.testing.assert_allclose(means @ mapped, found, atol=1e-5)
    assert np.linalg.matrix_rank(mapped) == 2
    assert set(runner.lengths) <= {32, 64, 96}


def test_projections_keep_distances_on_average() -> None:
    inputs = tuple(text_inputs("input_ids", "attention_mask"))
    record = _model().model_copy(update={"inputs": inputs})
    rng = np.random.default_rng(1)
    pairs = [_padded(rng, 20, 20) for _ in range(200)]
    found = _values(ModelFeatures(_Runner(), record, 8), pairs)
    means = np.array([[x["input_ids"].mean(), (x["input_ids"] ** 2).mean()] for x in pairs])
    ratio = np.square(found[::2] - found[1::2]).sum() / np.square(means[::2] - means[1::2]).sum()
    assert 0.4 < ratio < 2


def test_outputs_that_are_not_finite_become_zero() -> None:
    rng = np.random.default_rng(2)
    samples = [_padded(rng, 5, 8)]
    found = _values(ModelFeatures(_Runner(float("nan")), _model(), 2), samples)
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("rows", [1, 6])
def test_a_mask_with_further_axes_leaves_the_outputs_whole(rows: int) -> None:
    # As padding does elsewhere: a mask of (batch, 1, length) maps to no position of a tensor.
    shape = ("batch", 1, "length") if rows == 1 else ("batch", "length", "length")
    ids, mask = text_inputs("input_ids", "attention_mask")
    record = _model().model_copy(update={"inputs": (ids, mask.model_copy(update={"shape": shape}))})
    rng = np.random.default_rng(3)
    samples = [_padded(rng, 4, 6) for _ in range(3)]
    whole = [{**x, "attention_mask": np.tile(x["attention_mask"], (rows, 1))} for x in samples]
    unmasked = _model().model_copy(update={"inputs": (ids,)})
    expected = [{"input_ids": x["input_ids"]} for x in samples]
    np.testing.assert_array_equal(
        _values(ModelFeatures(_Runner(), record, 2), whole),
        _values(ModelFeatures(_Runner(), unmasked, 2), expected),
    )


def _with_tensor(layout: str) -> ModelRecord:
    group = Group(name="g", tensor="hidden", role="other", layers=(), macs=1)
    padding = (PaddedTensor(tensor="hidden", layout=layout),)  # type: ignore[arg-type]
    return _model().model_copy(update={"groups": (group,), "padding": padding})


def test_the_largest_magnitude_of_a_tensor_leaves_padding_out() -> None:
    rng = np.random.default_rng(4)
    samples = [_padded(rng, int(real), 40) for real in rng.integers(1, 40, 9)]
    features = ModelFeatures(_Runner(), _with_tensor("positions"), 4)
    found = _space(features, samples)
    assert found.names[-1] == "absmax(hidden)"
    # Padding holds 999, whose square no real position comes near.
    expected = [np.square(x["input_ids"][x["attention_mask"] > 0]).max() for x in samples]
    np.testing.assert_array_equal(found.values[:, -1], expected)
    seen = found.tensors["hidden"]
    np.testing.assert_array_equal(seen.sample_high, expected)
    real = sum(int(x["attention_mask"].sum()) for x in samples)
    assert seen.histogram.count == 2 * real
    assert seen.histogram.high == max(expected)


def test_a_tensor_without_a_finite_value_counts_zero() -> None:
    samples = [_padded(np.random.default_rng(5), 5, 8)]
    features = ModelFeatures(_Runner(float("nan")), _with_tensor("positions"), 2)
    found = _space(features, samples)
    assert found.values[0, -1] == 0
    assert found.tensors["hidden"].histogram.nan == 2 * 5


def test_a_model_is_readied_with_its_tensors_among_the_outputs() -> None:
    # hidden = input_ids * 2; output = hidden + 1, on (batch, length) of floats.
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float[batch, length] input_ids) => (float[batch, length] out)
        <float two = {2}, float one = {1}> {
            hidden = Mul (input_ids, two)
            out = Add (hidden, one)
        }"""
    )
    x = TensorInfo(name="input_ids", dtype="float32", shape=("batch", "length"))
    out = x.model_copy(update={"name": "out"})
    group = Group(name="g", tensor="hidden", role="other", layers=(), macs=1)
    record = _model().model_copy(update={"inputs": (x,), "outputs": (out,), "groups": (group,)})
    features = ModelFeatures.of(model, record, RuntimeConfig(batch=4), [{"length": 6, "batch": 1}])
    samples = [{"input_ids": np.arange(6, dtype=np.float32) - i} for i in range(5)]
    found = _space(features, samples)
    assert len(found.names) == DIRECTIONS + 1 == found.values.shape[1]
    expected = [np.abs(2 * x["input_ids"]).max() for x in samples]
    np.testing.assert_array_equal(found.values[:, -1], expected)
