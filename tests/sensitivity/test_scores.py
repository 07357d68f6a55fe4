"""Scores of groups are what fresh graphs of the whole model give, sample by sample."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from quantflow.artifacts.journal import Journal
from quantflow.runtime.workers import ALONE
from quantflow.sensitivity.ledger import Ledger
from quantflow.sensitivity.scores import Way, score_groups
from quantflow.sensitivity.segmented_model import SegmentedModel
from tests.graph.models import build, rand
from tests.graph.models import run as run_exactly

from .builders import (
    DISTANCES,
    RUNTIME,
    Bench,
    bench,
    brute_force,
    cosine,
    names,
    outputs_of,
    padded,
)
from .graphs import BENCHES, CHAIN

TOLERANCE = 1e-6
FINE = 1e-9
"""Of the side by side with numpy, whose sums have another order."""


@cache
def bench_called(name: str) -> Bench:
    return BENCHES[name]()


@pytest.fixture(params=list(BENCHES))
def any_bench(request: pytest.FixtureRequest) -> Bench:
    return bench_called(request.param)


def scores(
    b: Bench, way: Way, groups: Collection[str] | None = None, metric: str = "cosine"
) -> dict[str, np.ndarray]:
    return score_groups(
        b.model, b.probe, metric, way, groups or names(b), b.probe.batches, Ledger(None, ALONE)
    )


def expected_cosines(b: Bench, int8: Collection[str]) -> np.ndarray:
    """Cosine of every sample's real positions, from fresh graphs of the whole model."""
    other = brute_force(b, int8)
    pairs = zip(outputs_of(b, b.static), other, strict=True)
    return np.array([cosine(e["y"], o["y"]) for e, o in pairs])


def test_models_are_cut_into_segments_and_samples_fill_no_batch_exactly() -> None:
    for name in BENCHES:
        b = bench_called(name)
        assert len(b.model.segments) > 1 and len(b.samples) % b.dims["batch"] == 1
    assert {len(names(bench_called(name))) for name in BENCHES} == {13, 9, 5, 3}


def test_one_in_is_what_a_fresh_graph_of_each_group_gives(any_bench: Bench) -> None:
    found = scores(any_bench, "in")
    assert set(found) == set(names(any_bench))
    for group, values in found.items():
        expected = expected_cosines(any_bench, [group])
        np.testing.assert_allclose(values, expected, rtol=0, atol=TOLERANCE)
        # The damage, too, agrees to a thousandth of it.
        damage = float((1 - expected).mean())
        assert damage > 1e-7
        assert float((1 - values).mean()) == pytest.approx(damage, rel=1e-3, abs=1e-12)


def test_one_out_is_what_a_fresh_graph_of_all_but_each_group_gives(any_bench: Bench) -> None:
    for group, values in scores(any_bench, "out").items():
        others = set(names(any_bench)) - {group}
        expected = expected_cosines(any_bench, others)
        np.testing.assert_allclose(values, expected, rtol=0, atol=TOLERANCE)
        assert float((1 - expected).mean()) > 1e-7


def test_any_set_of_groups_is_what_a_fresh_graph_gives(any_bench: Bench) -> None:
    rng = np.random.default_rng(0)
    model, probe = any_bench.model, any_bench.probe
    for share in (0.2, 0.5, 0.8, 1.0):
        int8 = frozenset(name for name in names(any_bench) if rng.random() < share)
        found = probe.measure(lambda n, int8=int8: model.run(probe.feeds(n), int8), ["cosine"])
        expected = expected_cosines(any_bench, int8)
        np.testing.assert_allclose(found["cosine"], expected, rtol=0, atol=TOLERANCE)


def test_scores_of_a_part_are_those_of_its_samples() -> None:
    b = bench_called("encoder")
    group = names(b)[5]
    for way in get_args(Way):
        (whole,) = scores(b, way, [group]).values()
        found = [
            score_groups(b.model, b.probe, "cosine", way, [group], part, Ledger(None, ALONE))[group]
            for part in (range(1), range(1, 3), range(3, 4))
        ]
        assert [len(values) for values in found] == [2, 4, 1]
        np.testing.assert_array_equal(np.concatenate(found), whole)


# --- either side alone --------------------------------------------------------------------------


def fake_quantized_input(b: Bench, tensor: str, x: np.ndarray) -> np.ndarray:
    """Nearest of 256 equal steps from the low to the high end of the tensor's range, and 0."""
    bounds = next(entry for entry in b.ranges.ranges if entry.tensor == tensor)
    low, high = min(bounds.low, 0.0), max(bounds.high, 0.0)
    scale = np.float32((high - low) / 255)
    zero = np.clip(np.rint(-128 - low / scale), -128, 127)
    steps = np.clip(np.rint(x / scale) + zero, -128, 127)
    return ((steps - zero) * scale).astype(np.float32)


def fake_quantized_weight(w: np.ndarray) -> np.ndarray:
    """Nearest of 255 symmetric steps up to the largest magnitude of the output channel."""
    scale = (np.abs(w).max(axis=0) / 127).astype(np.float32)
    return (np.clip(np.rint(w / scale), -127, 127) * scale).astype(np.float32)


def chain(b: Bench, group: str, side: str) -> list[np.ndarray]:
    """The chain of `chain_bench` in numpy, with one side of a layer on its grid."""

    tensors = {g.name: g.tensor for g in b.record.groups}

    def layer(name: str, x: np.ndarray, weight: str, bias: str | None) -> np.ndarray:
        w = CHAIN[weight]
        if name == group and side == "activations":
            x = fake_quantized_input(b, tensors[name], x)
        if name == group and side == "weights":
            w = fake_quantized_weight(w)
        return x @ w + (CHAIN[bias] if bias else 0)

    found = list[np.ndarray]()
    for sample in b.samples:
        first = np.tanh(layer("n_a", sample["x"][None], "w0", "b0"))
        second = np.maximum(layer("n_b", first, "w1", "b1"), 0)
        found.append(layer("n_y", second, "w2", None)[0])
    return found


@pytest.mark.parametrize("side", ["weights", "activations"])
def test_one_side_alone_is_fake_quantization_by_definition(side: Way) -> None:
    b = bench_called("chain")
    exact = chain(b, "", "")
    for group, values in scores(b, side).items():
        expected = [cosine(e, o) for e, o in zip(exact, chain(b, group, side), strict=True)]
        np.testing.assert_allclose(values, expected, rtol=0, atol=FINE)
        assert 1 - np.mean(expected) > 1e-7  # there is something to see


# --- cost ---------------------------------------------------------------------------------------


def test_scores_do_not_depend_on_how_many_sessions_are_kept() -> None:
    b = bench_called("encoder")
    few = SegmentedModel(
        b.static, b.record, b.factors, fp19=True, runtime=RUNTIME,
        sessions=1 - 2 * len(b.model.segments),
    )  # fmt: skip
    feeds = padded(b.samples[:2], b.dims)
    for group in names(b)[::8]:
        expected = brute_force(b, [group])[0]["y"]
        found = few.run(feeds, frozenset({group}))["y"][0]
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
        np.testing.assert_array_equal(found, b.model.run(feeds, frozenset({group}))["y"][0])


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    b = bench_called("encoder")
    everything, count = names(b), len(b.samples)
    journal = Journal(tmp_path / "journal")
    for name in everything[:-2]:
        journal.note(f"score in 0-4\n{name}", [0.5] * count)
    told = list[tuple[int, int]]()
    found = score_groups(
        b.model, b.probe, "cosine", "in", everything, b.probe.batches, Ledger(journal, ALONE),
        lambda done, total: told.append((done, total)),
    )  # fmt: skip
    total = len(everything)
    assert told == [(total - 2, total), (total - 1, total), (total, total)]
    assert all((found[name] == 0.5).all() for name in everything[:-2])
    for name in everything[-2:]:
        expected = expected_cosines(b, [name])
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=TOLERANCE)
    assert list(Journal(tmp_path / "journal").entries) == [
        f"score in 0-4\n{name}" for name in everything
    ]


def test_what_comes_before_a_group_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench_called("decoder")
    steps = list[int]()
    real = SegmentedModel.step

    def counting(self: SegmentedModel, values, index, int8, side=None):
        steps.append(index)
        return real(self, values, index, int8, side)

    monkeypatch.setattr(SegmentedModel, "step", counting)
    found = scores(b, "in")
    last, batches = len(b.model.segments), len(b.probe.batches)
    places = [i for i, segment in enumerate(b.model.segments) for _ in segment.groups]
    assert len(places) == len(found) == 13
    # Each group: its own segment and what follows. The walk: every segment but the last, once.
    expected = sum(last - place for place in places) + max(places)
    assert len(steps) == batches * expected


def test_a_model_whose_reference_is_all_zero_is_measured() -> None:
    model = build(
        "(float[batch,4] x) => (float[batch,4] y) "
        "{ a = MatMul(x, w) b = Relu(a) y = MatMul(b, z) }",
        {"w": rand(4, 4), "z": np.zeros((4, 4), np.float32)},
    )
    b = bench(model, [{"x": rand(4, seed=i)} for i in range(3)], {"batch": 2})
    perfect = {"cosine": 1, "sqnr": 0, "relative_error": 0, "kl": 0}
    for metric in DISTANCES:
        for way in get_args(Way):
            for values in scores(b, way, metric=metric).values():
                np.testing.assert_array_equal(values, perfect[metric])


def test_the_chain_in_numpy_is_the_graph() -> None:
    b = bench_called("chain")
    for sample, expected in zip(b.samples, chain(b, "", ""), strict=True):
        feeds = {"x": np.stack([sample["x"]] * 2)}
        np.testing.assert_allclose(run_exactly(b.static, feeds)["y"][0], expected, atol=1e-5)
