"""Pictures and sound that are equal from afar, whatever their size, brightness and noise."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from quantflow.calibration.hygiene.pooled_grid import SIDE, near_duplicates, pooled_grid


def _picture(rng: np.random.Generator, height: int = 96, width: int = 64) -> NDArray[np.float64]:
    """Some blobs, ``(height, width)``."""
    y, x = np.mgrid[:height, :width] / np.array([[[height]], [[width]]])
    blobs = rng.uniform(0, 1, (6, 4))
    return sum(
        (b[3] * np.exp(-((y - b[0]) ** 2 + (x - b[1]) ** 2) / (0.02 + 0.05 * b[2])) for b in blobs),
        start=np.zeros((height, width)),
    )


def test_cells_are_means_scaled_to_127() -> None:
    picture = np.zeros((1, 32, 48))
    picture[0, :2, :3] = 6  # the first cell
    picture[0, 2:4, :3] = 3
    grid = pooled_grid(picture, 0).reshape(SIDE, SIDE).astype(float)
    assert grid[0, 0] == 127
    mean = 9 / SIDE**2
    assert grid[1, 0] == np.rint(127 * (3 - mean) / (6 - mean))
    assert grid[5, 5] == np.rint(-127 * mean / (6 - mean))


@pytest.mark.parametrize("shape", [(3, 5, 90), (3, 90, 5), (3, 17, 19), (1, 8, 8), (3, 48, 32)])
def test_cells_of_any_size_cover_every_value_once(shape: tuple[int, ...]) -> None:
    luma = np.random.default_rng(0).uniform(size=shape[1:])
    counts = [min(SIDE, size) for size in luma.shape]
    bounds = [
        [i * size // count for i in range(count + 1)]
        for size, count in zip(luma.shape, counts, strict=True)
    ]
    means = np.array(
        [[luma[y:v, x:w].mean() for x, w in pairwise(bounds[1])] for y, v in pairwise(bounds[0])]
    )
    means -= means.mean()
    expected = means.ravel() * 127 / abs(means).max()
    found = pooled_grid(np.tile(luma, (shape[0], 1, 1)), 0)
    assert abs(found[: expected.size] - expected).max() <= 0.51
    assert not found[expected.size :].any()


def test_flat_and_tiny_samples_have_no_grid() -> None:
    assert not pooled_grid(np.full((3, 40, 40), 0.1, np.float32), 0).any()
    assert not pooled_grid(np.arange(63.0), None).any()
    assert pooled_grid(np.arange(64.0), None).any()
    grids = np.zeros((3, SIDE**2), np.int8)
    assert len(np.unique(near_duplicates(grids))) == 3
    grids[1] = pooled_grid(np.arange(256.0), None)
    assert len(np.unique(near_duplicates(grids))) == 3


def test_size_brightness_contrast_and_noise_do_not_tell_copies_apart() -> None:
    rng = np.random.default_rng(1)
    seeds = rng.integers(0, 2**32, 300)
    plain = [_picture(np.random.default_rng(s))[None] for s in seeds]
    copies = [
        plain[0] * 3 + 7,
        _picture(np.random.default_rng(seeds[1]), 200, 150)[None],
        plain[2] + rng.normal(0, 0.02, plain[2].shape),
        np.round(plain[3] * 40) / 40,
    ]
    grids = np.array([pooled_grid(x.astype(np.float32), 0) for x in [*plain, *copies]])
    groups = near_duplicates(grids)
    for i in range(4):
        assert groups[i] == groups[300 + i], i
    assert len(np.unique(groups)) >= 299


def test_groups_are_those_of_all_correlations() -> None:
    rng = np.random.default_rng(2)
    grids = np.array([pooled_grid(_picture(rng)[None], 0) for _ in range(60)])
    noisy = np.clip(grids[:30] + rng.integers(-6, 7, (30, SIDE**2)), -127, 127).astype(np.int8)
    both = np.concatenate([grids, noisy])
    wide = both.astype(float)
    norm = np.linalg.norm(wide, axis=1)
    near = wide @ wide.T >= 0.99 * np.outer(norm, norm)
    for _ in range(len(near)):
        near = near @ near
    expected = {frozenset(np.flatnonzero(row).tolist()) for row in near}
    groups = near_duplicates(both)
    assert {frozenset(np.flatnonzero(groups == g).tolist()) for g in groups} == expected


@settings(max_examples=25)
@given(seed=st.integers(0, 2**16))
def test_groups_do_not_depend_on_the_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    some = rng.integers(-127, 128, (8, SIDE**2))
    grids = np.clip(some[rng.integers(0, 8, 30)] + rng.integers(-9, 10, (30, 1)), -127, 127)
    grids = grids.astype(np.int8)
    order = rng.permutation(30)
    groups, shuffled = near_duplicates(grids), near_duplicates(grids[order])
    same = groups[:, None] == groups
    np.testing.assert_array_equal(same[np.ix_(order, order)], shuffled[:, None] == shuffled)
