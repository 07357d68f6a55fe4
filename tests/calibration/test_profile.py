"""A profile holds what its definitions say, survives its file, and nothing broken is read."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantflow.calibration.profile.binning import BINS, EDGES, bin_centres, bin_counts, bin_edges
from quantflow.calibration.profile.kernel import random_features
from quantflow.calibration.profile.profile_file import load_profile, save_profile
from quantflow.calibration.profile.rounding import FeatureGrid

from .drift_tables import profile, table
from .some_profile import some_profile


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if hasattr(a, "__dataclass_fields__"):
        return all(_equal(getattr(a, x.name), getattr(b, x.name)) for x in fields(a))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_equal(a[x], b[x]) for x in a)
    return a == b


def _rounded(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, FeatureGrid]:
    grid = FeatureGrid.of(x)
    cells = grid.cells(x)
    return grid.values(cells), bin_edges(cells, grid), grid


def _reach(x: np.ndarray, step: float) -> np.ndarray:
    """Half of the widest cell that each value can be in: a step, or 1/16 octave from the median."""
    middle = np.quantile(x, 0.5, method="nearest")
    return np.maximum(step, (np.abs(x - middle) + step) / 16) / 2


@settings(max_examples=100)
@given(
    st.lists(st.floats(-1e6, 1e6) | st.integers(-2, 2).map(float), min_size=1, max_size=300),
    st.lists(st.floats(-2e6, 2e6), max_size=20),
)
def test_bins_count_every_value_and_keep_apart_what_lies_beyond(
    sample: list[float], others: list[float]
) -> None:
    x = np.array(sample)[:, None]
    values, edges, grid = _rounded(x)
    reach = _reach(x, float(grid.step[0])) * (1 + 1e-9)
    assert (np.abs(values - x) <= reach).all()
    assert edges.shape == (1, EDGES)
    last = int(np.isfinite(edges).sum())
    assert (np.diff(edges[0, :last]) > 0).all()
    blocks = np.arange(len(x)) % 3
    counts = bin_counts(values, edges, blocks, 3)
    assert counts.shape == (3, 1, BINS)
    assert counts.sum(axis=(1, 2)).tolist() == [sum(blocks == i) for i in range(3)]
    assert counts[..., 0].sum() == counts[..., last:].sum() == 0
    y = np.array(others)[:, None]
    found = bin_counts(y, edges, np.zeros(len(y), np.intp), 1)[0, 0]
    # What lies beyond the sample by a cell or more is seen, and nothing within it is.
    lowest, highest = x.argmin(), x.argmax()
    low, high = x.min() - 2 * reach[lowest, 0], x.max() + 2 * reach[highest, 0]
    assert (y < low).sum() <= found[0] <= (y < x.min()).sum()
    assert (y > high).sum() <= found[last:].sum() <= (y > x.max()).sum()
    if len(np.unique(values)) <= EDGES - 1:  # every cell has a bin of its own
        assert sorted(counts.sum(axis=(0, 1))[counts.sum(axis=(0, 1)) > 0]) == sorted(
            np.unique(values, return_counts=True)[1]
        )


def test_the_grid_of_a_feature_follows_its_spread_and_keeps_what_lies_on_it() -> None:
    x = np.arange(-32.0, 33.0)[:, None]  # the middle half is 32 wide: a step of 2
    grid = FeatureGrid.of(x)
    assert grid.step.tolist() == [2.0] and grid.centre.tolist() == [0.0]
    given = np.array([-64.0, -0.9, 0.0, 1.1, 64.0, 65.9, 66.1, 1000.0])[:, None]
    # From 64, which is 32 steps, octaves of 16 cells: 4 wide to 128, 32 from 512 to 1,024.
    expected = [-64.0, 0.0, 0.0, 2.0, 64.0, 64.0, 68.0, 992.0]
    assert grid.values(grid.cells(given))[:, 0].tolist() == expected
    mostly = np.array([*[3.0] * 98, 3.5, 7.0])[:, None]  # one value but for two samples
    assert FeatureGrid.of(mostly).step.tolist() == [2.0**-5]
    assert _rounded(np.full((5, 1), 0.1))[0].tolist() == [[0.1]] * 5


def test_the_outermost_cells_have_bins_of_their_own_and_centres_are_means() -> None:
    x = np.random.default_rng(1).standard_cauchy((3000, 1))
    values, edges, _ = _rounded(x)
    counts = bin_counts(values, edges, np.zeros(3000, np.intp), 1)[0, 0]
    occurring, times = np.unique(values, return_counts=True)
    assert len(occurring) > 64
    last = int(np.isfinite(edges).sum())
    assert counts[1:17].tolist() == times[:16].tolist()
    assert counts[last - 16 : last].tolist() == times[-16:].tolist()
    centres = bin_centres(values, edges)[0]
    assert centres[1] == occurring[0]
    assert (counts * np.nan_to_num(centres)).sum() == pytest.approx(values.sum())


def test_products_of_random_features_are_those_of_the_kernel() -> None:
    rows = np.random.default_rng(2).standard_normal((40, 10))
    found = random_features(rows, 4.0)
    squared = np.square(rows[:, None] - rows[None]).sum(axis=2)
    expected = np.exp(-squared / (2 * 4.0**2))
    # 256 frequencies: a standard error of at most 1 / sqrt(512).
    assert np.abs(found @ found.T - expected).mean() < 0.05
    np.testing.assert_allclose(np.square(found).sum(axis=1), 1)


def test_the_sketch_holds_sums_of_blocks_and_of_the_tail() -> None:
    # Multiples of a step are not rounded.
    x = np.round(np.random.default_rng(3).standard_normal((100, 4)) * 4) / 4
    x[:2] = [[-3.0], [3.0]]
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
    # A block holds four different samples or more, each with its copy.
    assert len(found.block_sizes) == 25 and (found.block_sizes == 8).all()
    assert found.effective == found.distinct == 100


def test_a_profile_does_not_depend_on_the_order_of_the_samples() -> None:
    rng = np.random.default_rng(4)
    rows = table(rng.standard_normal((60, 3)))
    assert _equal(profile(rows), profile(rows.take(rng.permutation(60))))


def test_no_sample_can_be_followed_from_tensor_to_tensor() -> None:
    found = some_profile().tensors["x/y"]
    assert (np.diff(found.sample_low) >= 0).all()


def test_what_is_written_is_read_and_equal_profiles_are_equal_bytes(tmp_path: Path) -> None:
    save_profile(tmp_path / "a", some_profile())
    save_profile(tmp_path / "b", some_profile())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert _equal(load_profile(tmp_path / "a"), some_profile())


def test_a_file_of_two_hundred_samples_is_small_and_holds_no_text(tmp_path: Path) -> None:
    save_profile(tmp_path / "p", some_profile(200, 60))
    data = (tmp_path / "p").read_bytes()
    assert len(data) < 2**20
    assert b"s[0]" not in data  # no id of a sample, let alone what it says


def test_without_its_model_a_profile_is_one_of_the_inputs() -> None:
    whole = some_profile(features=4)
    narrowed = whole.without_model()
    assert narrowed.names == ("f0", "f1", "f2") and not narrowed.tensors and not narrowed.model
    assert narrowed.scalars.shape[1] == len(narrowed.edges) == len(narrowed.centres) == 3
    assert narrowed.joint.names == narrowed.names
