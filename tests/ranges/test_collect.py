"""One pass sees every value that is not padding exactly once, in whatever order and batches."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from quantflow.artifacts.model_record import Layout
from quantflow.errors import QuantflowError
from quantflow.ranges.collect import Collection, collect
from quantflow.ranges.estimators import ESTIMATORS, EstimatorSettings
from quantflow.ranges.grid import Histogram, observe
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner

LENGTH, WIDTH = 6, 4
LAYOUTS: dict[str, Layout] = {"wide": "positions", "flat": "flat", "pooled": "none"}


@dataclass
class FakeModel:
    """Gives tensors of all layouts, each a function of one sample only."""

    outputs: tuple[str, ...] = tuple(LAYOUTS)
    runs: int = 0

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        self.runs += 1
        x = feeds["x"]
        return {"wide": x, "flat": x.reshape(-1, x.shape[-1]), "pooled": x[:, 0] * 2}


def _samples(count: int = 11, seed: int = 0) -> list[dict[str, NDArray[Any]]]:
    rng = np.random.default_rng(seed)
    samples: list[dict[str, NDArray[Any]]] = []
    for _ in range(count):
        x = rng.standard_normal((LENGTH, WIDTH)).astype(np.float32)
        mask = (np.arange(LENGTH) < rng.integers(1, LENGTH + 1)).astype(np.int64)
        x[mask == 0] = 1e6  # padding would ruin any range
        samples.append({"x": x, "mask": mask})
    return samples


def _collect(samples: list[dict[str, NDArray[Any]]], **changes: Any) -> Collection:
    settings: dict[str, Any] = {
        "ids": [f"s{i}" for i in range(len(samples))],
        "digests": [sample["x"].tobytes().hex() for sample in samples],
        "tensors": list(LAYOUTS),
        "padding": LAYOUTS,
        "mask_name": "mask",
        "batch": 4,
        "rows": 8,
    }
    return collect(FakeModel(), samples, **settings | changes)


def _same(a: Histogram, b: Histogram) -> bool:
    return bool((a.counts == b.counts).all()) and (a.low, a.high, a.inf) == (b.low, b.high, b.inf)


def test_padding_and_repeated_samples_are_left_out() -> None:  # C27
    samples = _samples()
    real = np.concatenate([s["x"][s["mask"] == 1] for s in samples])
    found = _collect(samples).tensors
    assert _same(found["wide"].histogram, observe(real))
    assert _same(found["flat"].histogram, observe(real))
    assert found["pooled"].histogram.count == len(samples) * WIDTH


def test_extremes_of_each_sample_are_exact() -> None:
    samples = _samples()
    found = _collect(samples).tensors["wide"]
    for index, sample in enumerate(samples):
        real = sample["x"][sample["mask"] == 1]
        assert (found.sample_low[index], found.sample_high[index]) == (real.min(), real.max())


@pytest.mark.parametrize("batch", [1, 3, 8, 32])
def test_batches_and_order_do_not_matter(batch: int) -> None:  # C5
    samples = _samples()
    order = random.Random(batch).sample(range(len(samples)), len(samples))
    expected = _collect(samples)
    found = _collect(
        [samples[i] for i in order],
        ids=[f"s{i}" for i in order],
        batch=batch,
    )
    for name, tensor in expected.tensors.items():
        other = found.tensors[name]
        assert _same(tensor.histogram, other.histogram)
        assert (tensor.rows[None] == other.rows[None]).all()
        assert (tensor.sample_high[order] == other.sample_high).all()


def test_samples_of_different_lengths_are_collected() -> None:  # C6
    samples = [
        {"x": np.full((n, WIDTH), n, np.float32), "mask": np.ones(n, np.int64)} for n in (32, 17)
    ]
    found = _collect(samples).tensors["wide"]
    assert found.histogram.count == (32 + 17) * WIDTH
    assert list(found.sample_high) == [32, 17]


def test_a_range_spans_all_batches() -> None:  # C2
    samples = [
        {"x": np.full((2, WIDTH), v, np.float32), "mask": np.ones(2, int)} for v in (1, 9, 2, 1)
    ]
    found = _collect(samples, batch=1).tensors["wide"].histogram
    assert ESTIMATORS["minmax"](found, EstimatorSettings()) == (1, 9)
    assert found.count == 4 * 2 * WIDTH  # C13


def test_non_finite_values_are_counted_and_located() -> None:  # C11
    samples = _samples()
    clean = _collect(samples)
    samples[7]["x"][0, 2] = np.nan
    samples[2]["x"][0, 1] = -np.inf
    dirty = _collect(samples)
    (wide, *_) = dirty.nonfinite("heldout")
    assert (wide.tensor, wide.split, wide.nan, wide.inf) == ("wide", "heldout", 1, 1)
    assert wide.samples == ("s2", "s7")
    assert clean.nonfinite("calibration") == []
    found = dirty.tensors["wide"]
    rest = [s["x"][s["mask"] == 1] for s in samples]
    finite = np.concatenate(rest)
    finite = finite[np.isfinite(finite)]
    assert (found.histogram.low, found.histogram.high) == (finite.min(), finite.max())
    assert found.histogram.count == clean.tensors["wide"].histogram.count - 2
    assert np.isfinite(found.rows[None]).all()
    assert np.isfinite(found.sample_low).all()


def test_a_sample_that_is_all_padding_has_no_values() -> None:
    samples = _samples(3)
    samples[1]["mask"][:] = 0
    found = _collect(samples).tensors["wide"]
    assert (found.sample_low[1], found.sample_high[1]) == (np.inf, -np.inf)


def test_row_samples_are_rows_of_the_tensor() -> None:
    samples = _samples()
    real = {row.tobytes() for s in samples for row in s["x"][s["mask"] == 1]}
    rows = _collect(samples).tensors["wide"].rows[None]
    assert rows.shape == (8, WIDTH)
    assert {row.tobytes() for row in rows} <= real


def test_without_a_mask_everything_counts() -> None:
    samples = _samples()
    found = _collect(samples, mask_name=None).tensors["wide"].histogram
    assert found.count == len(samples) * LENGTH * WIDTH


def test_a_tensor_without_batch_axis_belongs_to_every_sample() -> None:
    class Table:
        outputs = ("table",)

        def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return {"table": np.float32([[1, 2, 3]])}

    samples = _samples(5)
    digests = [str(i) for i in range(5)]
    counts = {
        batch: collect(
            Table(),
            samples,
            ids=digests,
            digests=digests,
            tensors=["table"],
            padding={},
            mask_name="mask",
            batch=batch,
        )
        .tensors["table"]
        .histogram.count
        for batch in (1, 2, 4)
    }
    assert counts == {1: 15, 2: 15, 4: 15}


def test_a_tensor_that_does_not_fit_the_mask_is_refused() -> None:
    with pytest.raises(QuantflowError, match="QF501"):
        _collect(_samples(), padding={"pooled": "flat"})


def test_progress_reports_samples() -> None:
    seen: list[tuple[int, int]] = []
    _collect(_samples(), progress=lambda _, done, total: seen.append((done, total)))
    assert seen == [(4, 11), (8, 11), (11, 11)]


def test_a_model_in_onnxruntime_gives_the_same_histogram_in_any_order() -> None:  # C5
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((WIDTH, 16)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Tanh", ["y"], ["z"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length", WIDTH]),
            helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", "length"]),
        ],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", "length", 16])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    runner = OnnxRuntimeRunner(model.SerializeToString())
    samples = _samples(20)
    found = []
    for order in (range(20), range(19, -1, -1)):
        some = [samples[i] for i in order]
        names = [str(i) for i in order]
        part = collect(
            runner,
            some,
            ids=names,
            digests=names,
            tensors=["z"],
            padding={"z": "positions"},
            mask_name="mask",
            batch=8,
        )
        found.append(part.tensors["z"])
    assert _same(found[0].histogram, found[1].histogram)
    assert (found[0].rows[None] == found[1].rows[None]).all()
    real = np.concatenate([s["x"][s["mask"] == 1] for s in samples])
    expected = np.tanh(real.astype(np.float64) @ weight)
    assert found[0].histogram.count == expected.size
    assert found[0].histogram.high == pytest.approx(expected.max(), rel=1e-5)


def test_the_largest_magnitude_of_every_channel_is_exact() -> None:
    samples = _samples()
    samples[3]["x"][0, 2] = np.nan
    samples[4]["x"][0, 1] = np.inf
    real = np.concatenate([s["x"][s["mask"] == 1] for s in samples])
    found = _collect(samples).tensors
    expected = np.where(np.isfinite(real), np.abs(real), 0).max(axis=0)
    assert (found["wide"].channel_absmax == expected).all()
    assert (found["flat"].channel_absmax == expected).all()


def test_without_rows_to_sample_the_rest_is_the_same() -> None:
    some, none = (_collect(_samples(), rows=rows).tensors["wide"] for rows in (8, 0))
    assert none.rows[None].size == 0
    assert _same(some.histogram, none.histogram)
    assert (some.sample_low == none.sample_low).all()


def test_an_error_of_the_model_is_raised() -> None:
    class Broken(FakeModel):
        def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            raise ValueError("broken model")

    with pytest.raises(ValueError, match="broken model"):
        collect(
            Broken(),
            _samples(),
            ids=[str(i) for i in range(11)],
            digests=[str(i) for i in range(11)],
            tensors=["wide"],
            padding={},
            mask_name=None,
            batch=4,
        )
