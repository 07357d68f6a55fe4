"""A profile holds what its definitions say, survives its file, and nothing broken is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from quantflow.calibration.profile.binning import BINS, EDGES, bin_centres, bin_counts, bin_edges
from quantflow.calibration.profile.kernel import random_features
from quantflow.calibration.profile.profile import Profile, make_profile
from quantflow.calibration.profile.profile_file import load_profile, save_profile
from quantflow.errors import QuantflowError
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.grid import observe

from .drift_tables import profile, table


def _some(count: int = 90, features: int = 3, seed: int = 0) -> Profile:
    """A profile with everything in it, the last feature and the tensor of a model."""
    rng = np.random.default_rng(seed)
    kinds = np.eye(2, dtype=np.int64)[rng.integers(0, 2, count)]
    rows = table(
        rng.standard_normal((count, features)),
        counts={"tokens": rng.integers(0, 9, (count, 5))},
        categories={"script": kinds},
    )
    values = rng.standard_normal((count, 7)).astype(np.float32)
    seen = TensorStatistics(
        histogram=observe(values),
        sample_low=values.min(axis=1).astype(np.float64),
        sample_high=values.max(axis=1).astype(np.float64),
        nonfinite_samples=(),
        rows={},
        channel_absmax=np.abs(values).max(axis=0),
    )
    return make_profile(rows, features - 1, model="m", source="s", tensors={"x/y": seen})


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if hasattr(a, "__dataclass_fields__"):
        return all(_equal(getattr(a, x.name), getattr(b, x.name)) for x in fields(a))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_equal(a[x], b[x]) for x in a)
    return a == b


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6) | st.integers(-2, 2).map(float), min_size=1, max_size=300),
    st.lists(st.floats(-2e6, 2e6), max_size=20),
)
def test_bins_count_every_value_and_keep_apart_what_lies_beyond(
    sample: list[float], others: list[float]
) -> None:
    x = np.array(sample)[:, None]
    edges = bin_edges(x)
    assert edges.shape == (1, EDGES)
    assert (edges[0, 1:] >= edges[0, :-1]).all()
    blocks = np.arange(len(x)) % 3
    counts = bin_counts(x, edges, blocks, 3)
    assert counts.shape == (3, 1, BINS)
    assert counts.sum(axis=(1, 2)).tolist() == [sum(blocks == i) for i in range(3)]
    last = int(np.isfinite(edges).sum())
    assert counts[..., 0].sum() == counts[..., last:].sum() == 0
    y = np.array(others)[:, None]
    found = bin_counts(y, edges, np.zeros(len(y), np.intp), 1)[0, 0]
    assert found[0] == (y < x.min()).sum()
    assert found[last:].sum() == (y > x.max()).sum()
    if len(np.unique(x)) <= EDGES - 1:  # every value has a bin of its own
        assert sorted(counts.sum(axis=(0, 1))[counts.sum(axis=(0, 1)) > 0]) == sorted(
            np.unique(x, return_counts=True)[1]
        )


def test_the_extremes_of_a_sample_have_bins_of_their_own_and_centres_are_means() -> None:
    x = np.random.default_rng(1).standard_normal((1000, 1))
    edges = bin_edges(x)
    counts = bin_counts(x, edges, np.zeros(1000, np.intp), 1)[0, 0]
    assert counts[1:17].tolist() == [1] * 16
    assert counts[-17:-1].tolist() == [1] * 16
    assert counts[17:-17].max() < 1.2 * counts[17:-17].mean()
    centres = bin_centres(x, edges)[0]
    assert centres[1] == x.min()
    assert (counts * np.nan_to_num(centres)).sum() == pytest.approx(x.sum())


def test_products_of_random_features_are_those_of_the_kernel() -> None:
    rows = np.random.default_rng(2).standard_normal((40, 10))
    found = random_features(rows, 4.0)
    squared = np.square(rows[:, None] - rows[None]).sum(axis=2)
    expected = np.exp(-squared / (2 * 4.0**2))
    # 256 frequencies: a standard error of at most 1 / sqrt(512).
    assert np.abs(found @ found.T - expected).mean() < 0.05
    np.testing.assert_allclose(np.square(found).sum(axis=1), 1)


def test_the_sketch_holds_sums_of_blocks_and_of_the_tail() -> None:
    x = np.random.default_rng(3).standard_normal((100, 4))
    kernel = profile(table(x)).joint
    rows = (x - x.mean(axis=0)) / x.std(axis=0)
    features = random_features(rows, kernel.width)
    np.testing.assert_allclose(kernel.mean, features.mean(axis=0), atol=1e-6)
    radius = np.linalg.norm(rows, axis=1)
    tail = radius > np.quantile(radius, 0.9)
    assert kernel.tail_size == tail.sum() == 10
    np.testing.assert_allclose(kernel.mean_of_tail, features[tail].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(kernel.mean_of_bulk, features[~tail].mean(axis=0), atol=1e-6)
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)[np.triu_indices(100, 1)]
    assert kernel.width == pytest.approx(np.median(distances))
    density = (features @ features.T).mean(axis=1)
    assert kernel.least_density == pytest.approx(np.quantile(density, 0.01), abs=1e-6)


def test_equal_samples_share_a_block_and_blocks_are_about_equal() -> None:
    x = np.arange(200.0)[:, None]
    digests = tuple(str(i // 2) for i in range(200))
    found = profile(table(x, digests=digests))
    assert found.block_sizes.sum() == 200
    assert found.block_sizes.min() >= 4 and (found.block_sizes % 2 == 0).all()
    assert found.effective == 100


def test_a_profile_does_not_depend_on_the_order_of_the_samples() -> None:
    rng = np.random.default_rng(4)
    rows = table(rng.standard_normal((60, 3)))
    assert _equal(profile(rows), profile(rows.take(rng.permutation(60))))


def test_no_sample_can_be_followed_from_tensor_to_tensor() -> None:
    found = _some().tensors["x/y"]
    assert (np.diff(found.sample_low) >= 0).all()


def test_what_is_written_is_read_and_equal_profiles_are_equal_bytes(tmp_path: Path) -> None:
    save_profile(tmp_path / "a", _some())
    save_profile(tmp_path / "b", _some())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert _equal(load_profile(tmp_path / "a"), _some())


def test_a_file_of_two_hundred_samples_is_small_and_holds_no_text(tmp_path: Path) -> None:
    save_profile(tmp_path / "p", _some(200, 60))
    data = (tmp_path / "p").read_bytes()
    assert len(data) < 2**20
    assert b"s[0]" not in data  # no id of a sample, let alone what it says


def test_without_its_model_a_profile_is_one_of_the_inputs() -> None:
    whole = _some(features=4)
    narrowed = whole.without_model()
    assert narrowed.names == ("f0", "f1", "f2") and not narrowed.tensors and not narrowed.model
    assert narrowed.scalars.shape[1] == len(narrowed.edges) == len(narrowed.centres) == 3
    assert narrowed.joint.names == narrowed.names


def _with(change: Callable[[dict[str, np.ndarray]], None]) -> Callable[[bytes], bytes]:
    def broken(data: bytes) -> bytes:
        size = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + size])["__metadata__"]
        arrays = {name: array.copy() for name, array in load(data).items()}
        change(arrays)
        return save(arrays, metadata)

    return broken


def _set(name: str, make: Callable[[np.ndarray], np.ndarray]) -> Callable[[bytes], bytes]:
    return _with(lambda arrays: arrays.update({name: make(arrays[name])}))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (lambda data: b"", "not a deployment profile"),
        (lambda data: data[: len(data) // 2], "not a deployment profile"),
        (lambda data: save({"x": np.zeros(3)}), "header"),
        (_with(lambda arrays: arrays.pop("edges")), "lacks 'edges'"),
        (_set("scalars", lambda x: x + 1), "add up"),
        (_set("scalars", lambda x: x.astype(np.float32)), "counts cannot be float32"),
        (_set("scalars", lambda x: x[:, :1]), "shape"),
        (_set("edges", lambda x: x[:, ::-1].copy()), "ascend"),
        (_set("joint/sums", lambda x: x * np.float32("nan")), "float32"),
        (_set("categories/script", lambda x: x * 0), "add up"),
        (_set("tensors/x/y/low", lambda x: x[:3]), "shape"),
        (_set("tensors/x/y/counts", lambda x: x * 0), "positive"),
        (_set("tensors/x/y/counts", lambda x: -x.astype(np.int64)), "counts cannot be int64"),
    ],
)
def test_a_broken_file_is_refused(
    tmp_path: Path, broken: Callable[[bytes], bytes], reason: str
) -> None:
    path = tmp_path / "p"
    save_profile(path, _some())
    path.write_bytes(broken(path.read_bytes()))
    with pytest.raises(QuantflowError) as caught:
        load_profile(path)
    problem = caught.value.problems[0]
    assert problem.code == "QF313" and reason in problem.what and problem.where == str(path)


def test_a_missing_file_is_said() -> None:
    with pytest.raises(QuantflowError, match="QF313"):
        load_profile(Path("nowhere"))
