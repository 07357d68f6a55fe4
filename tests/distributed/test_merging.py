"""What several workers make of a set is, bit for bit, what one makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from quantflow.artifacts.model_record import Layout
from quantflow.progress import Progress, no_progress
from quantflow.ranges.collect import Collection, collect
from quantflow.ranges.fp16_safety import measure_fp16
from quantflow.ranges.grid import observe
from quantflow.ranges.part import Part
from quantflow.ranges.row_sample import PICKS
from quantflow.ranges.tensor_state import arrays_of, merge_states, nothing_seen, state_of
from quantflow.ranges.views import Reading
from quantflow.runtime.onnxruntime_runner import OnnxRuntimeRunner
from quantflow.runtime.workers import ALONE, Workers

from .threads import together

WIDTH = 3
LAYOUTS: dict[str, Layout] = {"wide": "positions", "pooled": "none"}


class FakeModel:
    outputs = tuple(LAYOUTS)

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {"wide": feeds["x"], "pooled": feeds["x"][:, 0]}


def _samples(lengths: list[int], seed: int) -> list[dict[str, NDArray[Any]]]:
    """Samples of the given lengths; some values are NaN or infinite."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, NDArray[Any]]] = []
    for length in lengths:
        x = rng.standard_normal((length, WIDTH)).astype(np.float32)
        x[rng.random(x.shape) < 0.05] = rng.choice([np.nan, np.inf, -np.inf])
        found.append({"x": x, "mask": (np.arange(length) < rng.integers(1, length + 1))})
    return found


def _collect(
    samples: list[dict[str, NDArray[Any]]],
    batch: int,
    workers: Workers,
    progress: Progress = no_progress,
) -> Collection:
    return collect(
        FakeModel(),
        samples,
        ids=[f"s{i}" for i in range(len(samples))],
        digests=[sample["x"].tobytes().hex() for sample in samples],
        tensors=list(LAYOUTS),
        padding=LAYOUTS,
        mask_name="mask",
        batch=batch,
        rows=7,
        progress=progress,
        workers=workers,
    )


def _bits(collection: Collection) -> dict[str, Any]:
    """Everything that was found, as bytes where it is an array."""

    def frozen(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.dtype.str, value.shape, value.tobytes()
        if isinstance(value, tuple):
            return tuple(map(frozen, value))
        return {k: frozen(v) for k, v in value.items()} if isinstance(value, dict) else value

    return {name: frozen(asdict(found)) for name, found in collection.tensors.items()}


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=14),
    st.integers(1, 4),
    st.integers(2, 5),
    st.integers(0, 2**32 - 1),
)
def test_workers_find_what_one_process_finds(
    lengths: list[int], batch: int, count: int, seed: int
) -> None:
    samples = _samples(lengths, seed)
    expected = _bits(_collect(samples, batch, ALONE))
    for found in together(count, lambda workers: _collect(samples, batch, workers)):
        assert _bits(found) == expected


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), min_size=1, max_size=8),
    st.integers(0, 9),
    st.integers(0, 2**32 - 1),
)
def test_merged_states_are_the_state_of_all_values(
    sizes: list[tuple[int, int]], limit: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    states = [nothing_seen(len(sizes)) for _ in range(3)]
    samples = [rng.standard_normal((size, WIDTH)).astype(np.float32) for size, _ in sizes]
    for index, (sample, (_, owner)) in enumerate(zip(samples, sizes, strict=True)):
        states[owner].add(Part(sample[None, None]), [index], [str(index)], limit, Reading())
    merged = merge_states([state_of(arrays_of(state)) for state in states], limit)
    everything = observe(np.concatenate(samples))
    assert (merged.histogram.counts == everything.counts).all()
    assert (merged.histogram.low, merged.histogram.high) == (everything.low, everything.high)
    assert merged.low.tolist() == [sample.min() for sample in samples]
    assert merged.high.tolist() == [sample.max() for sample in samples]
    kept = min(limit, sum(len(sample) for sample in samples))
    for pick in PICKS:
        assert len(merged.samples[0, pick].rows) == kept if kept else not merged.samples
    rows = np.concatenate(samples)
    assert merged.row_counts == ({0: len(rows)} if limit else {})
    highest = sorted(rows.max(axis=1).tolist(), reverse=True)[:kept]
    lowest = sorted(rows.min(axis=1).tolist())[:kept]
    if kept:
        assert merged.samples[0, "high"].rows.max(axis=1).tolist() == highest
        assert merged.samples[0, "low"].rows.min(axis=1).tolist() == lowest


def test_progress_counts_the_samples_of_all_workers() -> None:
    samples = _samples([2] * 9, seed=0)
    seen: list[int] = []

    def leader_s_progress(workers: Workers) -> Progress:
        return no_progress if workers.place.rank else lambda _, done, total: seen.append(done)

    together(3, lambda workers: _collect(samples, 2, workers, leader_s_progress(workers)))
    # Batches 0 and 3 are the leader's; those of others may be in before or after them.
    assert seen == sorted(seen) and seen[-1] == 9 and seen.count(9) == 1


def _overflowing_model() -> ir.Model:
    """Scales by 3000 and squares, so that large inputs leave fp16 and small ones vanish in it."""
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "factor"], ["y"], name="scale"),
            helper.make_node("Mul", ["y", "y"], ["z"], name="square"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(np.float32(3000), "factor")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return ir.serde.deserialize_model(proto)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_fp16_measures_are_those_of_one_process(count: int) -> None:
    rng = np.random.default_rng(0)
    samples = [{"x": (rng.standard_normal(5) * 10.0**-e).astype(np.float32)} for e in range(11)]

    def measure(workers: Workers):
        return measure_fp16(
            _overflowing_model(), OnnxRuntimeRunner, samples, batch=2, workers=workers
        )

    expected = measure(ALONE)
    assert any(t.overflow for t in expected) and any(0 < t.flushed_fraction < 1 for t in expected)
    for found in together(count, measure):
        assert found == expected
