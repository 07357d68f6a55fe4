"""Samples on disk, measured batch by batch, by one process or by several."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.artifacts.model_record import ModelRecord, TensorInfo
from quantflow.runtime.workers import ALONE, Workers
from quantflow.sensitivity.probe import Probe
from quantflow.tasks.metrics import METRICS, Judged, Metric
from tests.distributed.threads import together

WIDTH = 3
TEXT = TensorInfo(name="x", dtype="float32", shape=("batch", "length", WIDTH))
MASK = TensorInfo(name="mask", dtype="int64", shape=("batch", "length"), mask=True)
OUT = TensorInfo(name="y", dtype="float32", shape=("batch", "length", WIDTH))
RECORD = ModelRecord(
    opset=18, inputs=(TEXT, MASK), outputs=(OUT,), layers=(), groups=(), padding=()
)
DIMS = {"batch": 3, "length": 5}


def double(feeds: Any) -> dict[str, np.ndarray]:
    return {"y": 2 * feeds["x"]}


def samples(count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, DIMS["length"] + 1, count)
    return [
        {"x": rng.normal(size=(n, WIDTH)).astype(np.float32), "mask": np.ones(n, np.int64)}
        for n in lengths
    ]


def total(judged: Judged) -> float:
    return float(judged.outputs["y"].sum() - judged.inputs["x"].sum())


def largest_error(judged: Judged) -> float:
    return float(np.abs(judged.outputs["y"] - judged.reference["y"]).max())


OWN = Metric(total, True, None, weight=lambda judged: float(len(judged.inputs["x"]) - 1))
DISTANCE = Metric(largest_error, False, 0.0)
METRIC = {"own": OWN, "distance": DISTANCE}


def probe_of(given: list[dict[str, np.ndarray]], workers: Workers = ALONE) -> Probe:
    ids = [f"s{i}" for i in range(len(given))]
    return Probe(double, given, ids, RECORD, DIMS, METRIC, workers)


def test_every_sample_is_judged_without_batch_and_padding_against_the_float_model() -> None:
    given = samples(7)
    probe = probe_of(given)
    assert len(probe) == 7 and probe.batches == range(3)
    found = probe.measure(lambda number: {"y": 3 * probe.feeds(number)["x"]})
    assert found["own"] == pytest.approx([2 * float(x["x"].sum()) for x in given], abs=1e-4)
    assert found["distance"] == pytest.approx([float(np.abs(x["x"]).max()) for x in given])
    assert probe.of_float["own"] == pytest.approx([float(x["x"].sum()) for x in given], abs=1e-5)
    assert probe.of_float["distance"].tolist() == [0.0] * 7
    assert probe.weights["own"].tolist() == [float(len(x["x"]) - 1) for x in given]
    assert probe.weights["distance"].tolist() == [1.0] * 7


def test_only_what_is_asked_for_is_measured_in_the_part_that_is_asked_for() -> None:
    probe = probe_of(samples(8))
    asked = list[int]()

    def run(number: int) -> dict[str, np.ndarray]:
        asked.append(number)
        return {"y": probe.feeds(number)["x"]}

    whole = probe.measure(run)
    asked.clear()
    found = probe.measure(run, ["own"], range(1, 3))
    assert asked == [1, 2] and list(found) == ["own"]
    np.testing.assert_array_equal(found["own"], whole["own"][3:8])
    assert probe.samples_in(range(1)) == range(3) and probe.samples_in(range(1, 3)) == range(3, 8)


def test_feeds_are_the_padded_samples_bit_by_bit_and_read_anew() -> None:
    given = samples(4)
    probe = probe_of(given)
    for number in probe.own(probe.batches):
        feeds = probe.feeds(number)
        assert feeds["x"].shape == (3, 5, WIDTH) and feeds["mask"].shape == (3, 5)
        for row in range(3):
            sample = given[min(number * 3 + row, 3)]  # the last batch repeats its last sample
            length = len(sample["x"])
            assert feeds["x"][row, :length].tobytes() == sample["x"].tobytes()
            assert not feeds["x"][row, length:].any()
            assert feeds["mask"][row].tolist() == [1] * length + [0] * (5 - length)
        assert feeds["x"] is not probe.feeds(number)["x"]


def test_neither_samples_nor_reference_outputs_stay_in_memory() -> None:
    size = 64 * 1024  # 256 KB a sample, and as much of output

    def many() -> Iterator[dict[str, np.ndarray]]:
        for index in range(100):
            yield {"x": np.full((size,), index, np.float32)}

    record = ModelRecord(
        opset=18, layers=(), groups=(), padding=(),
        inputs=(TensorInfo(name="x", dtype="float32", shape=("batch", size)),),
        outputs=(TensorInfo(name="y", dtype="float32", shape=("batch", size)),),
    )  # fmt: skip
    tracemalloc.start()
    try:
        probe = Probe(
            double, many(), [f"s{i}" for i in range(100)], record, {"batch": 2},
            {"cosine": METRICS["cosine"]},
        )  # fmt: skip
        held, _ = tracemalloc.get_traced_memory()
        values = probe.measure(lambda number: double(probe.feeds(number)))["cosine"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert values[1:] == pytest.approx(1.0)
    assert held < 2 * 2**20 and peak < 20 * 2**20  # of 50 MB


def test_no_reference_is_kept_where_no_metric_asks_for_it() -> None:
    given = samples(3)
    kept = list[Judged]()
    seen = Metric(lambda judged: float(kept.append(judged) is None), True, None)
    probe = Probe(double, given, ["a", "b", "c"], RECORD, DIMS, {"seen": seen})
    kept.clear()
    probe.measure(lambda number: double(probe.feeds(number)))
    assert [judged.id for judged in kept] == ["a", "b", "c"]
    assert all(judged.reference == {} for judged in kept)


def test_what_is_not_finite_is_kept() -> None:
    probe = probe_of(samples(4))

    def broken(number: int) -> dict[str, np.ndarray]:
        y = double(probe.feeds(number))["y"].copy()
        y[0, 0, 0] = np.nan
        return {"y": y}

    found = probe.measure(broken)["distance"]
    assert np.isnan(found[[0, 3]]).all() and (found[[1, 2]] == 0).all()


@settings(max_examples=25)
@given(st.integers(1, 14), st.integers(2, 4), st.integers(0, 2**16))
def test_workers_measure_what_one_process_does_and_share_the_batches(
    count: int, workers: int, seed: int
) -> None:
    given = samples(count, seed)
    alone = probe_of(given)
    expected = alone.measure(lambda number: {"y": alone.feeds(number)["x"]})
    part = range(len(alone.batches) // 2, len(alone.batches))

    def work(worker: Workers) -> tuple[list[int], Probe, dict[str, Any], dict[str, Any]]:
        probe = probe_of(given, worker)
        ran = list[int]()

        def run(number: int) -> dict[str, np.ndarray]:
            ran.append(number)
            return {"y": probe.feeds(number)["x"]}

        return ran, probe, probe.measure(run), probe.measure(run, ["own"], part)

    everything = together(workers, work)
    for ran, probe, found, in_part in everything:
        assert sorted(ran) == sorted([*probe.own(probe.batches), *probe.own(part)])
        for name in METRIC:
            assert found[name].tobytes() == expected[name].tobytes()
            assert probe.of_float[name].tobytes() == alone.of_float[name].tobytes()
            assert probe.weights[name].tobytes() == alone.weights[name].tobytes()
        assert in_part["own"].tobytes() == expected["own"][part.start * 3 :].tobytes()
    owned = [number for _, probe, _, _ in everything for number in probe.own(probe.batches)]
    assert sorted(owned) == list(alone.batches)
