"""The scale of least error, that error written out, and channels that are brought together."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.ranges.views import Reader
from quantflow.recovery.smoothing import FACTORS, Channels, smooth

K, N = 8, 6


def channels(rows: np.ndarray, count: int = K) -> Channels:
    by_channel = rows.reshape(len(rows), count, -1)
    return Channels(
        rows, by_channel.min(axis=(0, 2)).clip(max=0), by_channel.max(axis=(0, 2)).clip(min=0)
    )


def wild(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with one channel that is much larger than the rest, and a weight."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(100, K)).astype(np.float32)
    rows[:, 3] *= 100
    weight = rng.normal(size=(K, N)).astype(np.float32)
    weight[3] *= 0.05
    return rows, weight


def loss(rows: np.ndarray, weight: np.ndarray, *, symmetric: bool, per_channel: bool) -> float:
    """Relative squared error of INT8 rows times an INT8 weight, under the best of the ranges."""
    output = rows.astype(np.float64) @ weight
    absmax = np.abs(weight).max(axis=0) if per_channel else np.abs(weight).max()
    steps = absmax / 127
    w = np.rint(weight / steps) * steps
    found = list[float]()
    for factor in FACTORS:
        low, high = factor * min(rows.min(), 0), factor * max(rows.max(), 0)
        scale = max(-low, high) / 127 if symmetric else (high - low) / 255
        zero = 0 if symmetric else np.clip(-128 - np.rint(low / scale), -128, 127)
        x = (np.clip(np.rint(rows / scale) + zero, -128, 127) - zero) * scale
        error = x @ w - output
        found.append(float(((error**2).sum(axis=1) / (output**2).sum(axis=1)).mean()))
    return min(found[0], *(x / 0.8 for x in found[1:]))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_errors_are_those_of_int8(symmetric: bool, per_channel: bool) -> None:
    rows, weight = wild()
    readers = [Reader(weight[None], per_channel=per_channel)]
    found = smooth(channels(rows), readers, np.arange(K), symmetric=symmetric)
    assert found is not None
    how = {"symmetric": symmetric, "per_channel": per_channel}
    assert found.before == pytest.approx(loss(rows, weight, **how), rel=0.02)
    s = found.scale
    assert found.after == pytest.approx(loss(rows / s, weight * s[:, None], **how), rel=0.02)
    assert found.after < 0.25 * found.before
    assert found.gain == pytest.approx(1 - found.after / found.before)
    assert s[3] > 4 * np.median(s)


def test_channels_of_one_class_are_scaled_alike() -> None:
    rows, weight = wild()
    classes = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    found = smooth(channels(rows), [Reader(weight[None])], classes, symmetric=False)
    free = smooth(channels(rows), [Reader(weight[None])], np.arange(K), symmetric=False)
    assert found is not None and free is not None
    assert np.array_equal(found.scale[::2], found.scale[1::2])
    assert free.after < found.after


def test_windows_of_one_point_are_vectors() -> None:
    # A receptive field of two points whose weights do not look at the second one.
    rows, weight = wild()
    twice = np.repeat(rows, 2, axis=1)
    padded = np.zeros((2 * K, N), np.float32)
    padded[::2] = weight
    found = smooth(channels(twice), [Reader(padded[None])], np.arange(K), symmetric=False)
    expected = smooth(channels(rows), [Reader(weight[None])], np.arange(K), symmetric=False)
    assert found is not None and expected is not None
    assert found.name == expected.name and np.allclose(found.scale, expected.scale)
    assert found.after == pytest.approx(expected.after, rel=1e-3)


def test_layers_of_groups_are_judged_part_by_part() -> None:
    rows, weight = wild()
    parts = np.stack([weight[:4], weight[4:]])
    whole = np.zeros((K, 2 * N), np.float32)
    whole[:4, :N], whole[4:, N:] = parts
    found = smooth(channels(rows), [Reader(parts)], np.arange(K), symmetric=False)
    expected = smooth(channels(rows), [Reader(whole[None])], np.arange(K), symmetric=False)
    assert found is not None and expected is not None
    assert found.name == expected.name and found.after == pytest.approx(expected.after, rel=1e-3)


def test_what_cannot_be_judged_is_left() -> None:
    rows, weight = wild()
    classes, readers = np.arange(K), [Reader(weight[None])]
    assert smooth(channels(rows), [], classes, symmetric=False) is None
    nothing = Channels(rows[:0], np.zeros(K, np.float32), np.ones(K, np.float32))
    assert smooth(nothing, readers, classes, symmetric=False) is None
    assert smooth(channels(np.zeros_like(rows)), readers, classes, symmetric=False) is None


def test_a_scale_that_helps_nothing_is_not_used() -> None:
    rows = np.tile(np.float32([[1, -1], [-1, 1]]), (4, 1)) * np.float32(0.5)
    weight = np.eye(2, dtype=np.float32)
    found = smooth(channels(rows, 2), [Reader(weight[None])], np.arange(2), symmetric=True)
    assert found is not None and found.gain < 0.05
