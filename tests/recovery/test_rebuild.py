"""A layer's integers and bias: smaller error, no mean error, and the same again from notes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quantflow.config import Granularity
from quantflow.numerics.quantize import QuantParams, activation_params, weight_scales
from quantflow.recovery.rebuild import Rebuilt, rebuild


def compute(_: str, work: Callable[[], Any]) -> Any:
    return work()


def never(key: str, _: Callable[[], Any]) -> Any:
    raise AssertionError(f"{key} is computed again")


def made(seed: int, groups: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray, QuantParams]:
    """A coarse weight ``(K, N)``, a bias, correlated rows that are not centred, and their grid."""
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(8, 6)).astype(np.float32)
    weight[0] *= 60  # so that the others have few steps
    bias = rng.normal(size=6).astype(np.float32)
    x = rng.normal(size=(200, 3)) @ rng.normal(size=(3, groups * 8)) + 1
    x[:, ::8] *= 0.02
    rows = np.maximum(x, 0).astype(np.float32)
    return weight, bias, rows, activation_params(0, 0.7 * float(rows.max()), symmetric=False)


def rebuilt(
    seed: int,
    *,
    groups: int = 1,
    bias: bool = True,
    rounding: bool = True,
    granularity: Granularity = "per-channel",
    recall: Callable[[str, Callable[[], Any]], Any] = compute,
) -> Rebuilt:
    weight, some, rows, params = made(seed, groups)
    found = rebuild(
        "l", weight, some if bias else None, groups, rows, params, granularity, recall,
        rounding=rounding,
    )  # fmt: skip
    assert found is not None
    return found


def errors(seed: int, groups: int, steps: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """``(R, N)`` float64: what float outputs have and integers lack."""
    weight, _, rows, params = made(seed, groups)
    x = rows.astype(np.float64)
    q = np.clip(np.rint(rows * params.multiplier) + params.zero_point, -128, 127)
    grid = (q - params.zero_point) * params.scale
    parts = range(groups)
    columns = 6 // groups
    return np.concatenate([
        x[:, 8 * g : 8 * g + 8] @ weight[:, columns * g : columns * (g + 1)]
        - grid[:, 8 * g : 8 * g + 8] @ (steps * scales)[:, columns * g : columns * (g + 1)]
        for g in parts
    ], axis=1)  # fmt: skip


def powers(seed: int, groups: int) -> np.ndarray:
    """``(R,)`` squared lengths of the float outputs."""
    nothing = np.zeros((8, 6))
    return (errors(seed, groups, nothing, np.ones(6)) ** 2).sum(axis=1)


def relative(error: np.ndarray, power: np.ndarray) -> float:
    counts = power > 0
    return float(((error[counts] ** 2).sum(axis=1) / power[counts]).mean())


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("granularity", ["per-channel", "per-tensor"])
def test_a_corrected_bias_leaves_no_mean_error(groups: int, granularity: Granularity) -> None:
    for seed in range(3):
        found = rebuilt(seed, groups=groups, granularity=granularity)
        _, bias, *_ = made(seed, groups)
        power = powers(seed, groups)
        share = np.where(power > 0, 1 / np.where(power > 0, power, 1), 0)
        share /= share.sum()
        for weights, corrected, error_of in (
            (found.nearest, found.nearest_bias, found.record.error_nearest),
            (found.rounded, found.rounded_bias, found.record.error_rounded),
        ):
            assert corrected is not None and corrected.dtype == np.float32
            error = errors(seed, groups, weights.weight, weights.scales)
            assert relative(error, power) == pytest.approx(error_of, rel=1e-3)
            left = share @ (error - (corrected - bias))
            assert np.abs(left).max() < 1e-4 * np.sqrt(share @ error**2).max()
            assert np.array_equal(weights.bias, bias)
        error = errors(seed, groups, found.rounded.weight, found.rounded.scales)
        error -= found.rounded_bias - bias
        assert relative(error, power) == pytest.approx(found.record.error_corrected, rel=1e-3)


@pytest.mark.parametrize("groups", [1, 2])
def test_rounding_by_the_output_loses_less(groups: int) -> None:
    records = [rebuilt(seed, groups=groups).record for seed in range(12)]
    ratios = np.array([x.error_rounded / x.error_nearest for x in records])
    assert np.exp(np.log(ratios).mean()) < 0.9
    assert (ratios < 1).mean() > 0.8
    assert all(x.error_corrected <= x.error_rounded * (1 + 1e-6) for x in records)


def test_nearest_is_the_definition() -> None:
    weight, *_ = made(0)
    found = rebuilt(0).nearest
    scales = np.abs(weight).max(axis=0) / np.float32(127)
    assert np.allclose(found.scales, scales, rtol=1e-6)
    assert np.array_equal(found.weight, np.clip(np.rint(weight / found.scales), -127, 127))
    single = rebuilt(0, granularity="per-tensor").nearest
    assert single.scales == weight_scales(weight, None) and single.scales.shape == (1,)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("granularity", ["per-channel", "per-tensor"])
def test_what_was_noted_gives_the_same_weights(groups: int, granularity: Granularity) -> None:
    noted = dict[str, str]()

    def note(key: str, work: Callable[[], Any]) -> Any:
        noted[key] = json.dumps(work())
        return json.loads(noted[key])

    first = rebuilt(3, groups=groups, granularity=granularity, recall=note)
    assert set(noted) == {"l"}
    again = rebuilt(
        3, groups=groups, granularity=granularity, recall=lambda key, _: json.loads(noted[key])
    )
    assert np.array_equal(first.rounded.weight, again.rounded.weight)
    assert first.record == again.record
    assert first.rounded_bias is not None and again.rounded_bias is not None
    assert first.rounded_bias.tobytes() == again.rounded_bias.tobytes()
    plain = rebuilt(3, groups=groups, granularity=granularity)
    assert np.array_equal(plain.rounded.weight, first.rounded.weight)
    assert not np.array_equal(plain.rounded.weight, plain.nearest.weight)


def test_without_rounding_nothing_is_searched() -> None:
    found = rebuilt(1, rounding=False, recall=never)
    assert np.array_equal(found.rounded.weight, found.nearest.weight)
    assert found.record.error_rounded == found.record.error_nearest
    assert found.record.error_corrected < found.record.error_nearest


def test_a_layer_without_a_bias_is_not_given_one() -> None:
    found = rebuilt(2, bias=False)
    assert found.nearest_bias is found.rounded_bias is found.rounded.bias is None
    assert found.record.error_corrected == found.record.error_rounded


def test_steps_that_change_from_one_end_to_the_other_are_noted_right() -> None:
    # Two inputs that are the same: what one is clipped by, the other makes up for.
    weight = np.float32([[127.4, -127.4], [-100, 100], [90.3, 1.2]])
    x = np.abs(np.random.default_rng(0).normal(size=(50, 1))).astype(np.float32)
    rows = x * np.float32([1, 1, 0.5])
    params = activation_params(0, float(rows.max()), symmetric=False)
    found = rebuild("l", weight, None, 1, rows, params, "per-tensor", compute, rounding=True)
    assert found is not None
    assert np.abs(found.rounded.weight.astype(int)).max() <= 127


def test_rows_that_tell_nothing_give_nothing() -> None:
    weight, bias, rows, params = made(0)
    for some in (np.zeros_like(rows), rows[:0]):
        assert rebuild("l", weight, bias, 1, some, params, "per-channel", never, rounding=True) \
            is None  # fmt: skip
    nothing = np.zeros_like(weight)
    assert rebuild("l", nothing, bias, 1, rows, params, "per-channel", never, rounding=True) is None


@pytest.mark.parametrize("size", [1e-25, 1e-40, 1e25])
def test_outputs_beyond_what_squares_hold_leave_sane_integers(size: float) -> None:
    weight, _, rows, params = made(0)
    small = (weight * size).astype(np.float32)
    found = rebuild("l", small, None, 1, rows, params, "per-tensor", compute, rounding=True)
    assert found is not None
    away = found.rounded.weight.astype(int) - found.nearest.weight
    assert np.abs(away).max() <= 3 and np.isfinite(found.record.error_rounded)


def test_rows_beyond_what_squares_hold_are_rounded_to_the_nearest() -> None:
    weight, _, rows, _ = made(0)
    rows = (rows / np.abs(rows).max() * 1e25).astype(np.float32)
    params = activation_params(float(rows.min()), float(rows.max()), symmetric=False)
    found = rebuild("l", weight, None, 1, rows, params, "per-channel", compute, rounding=True)
    assert found is not None and np.array_equal(found.rounded.weight, found.nearest.weight)


def test_a_layer_of_too_many_inputs_is_rounded_to_the_nearest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weight, bias, rows, params = made(0)
    monkeypatch.setattr("quantflow.recovery.rebuild.MOST_INPUTS", len(weight) - 1)
    found = rebuild("l", weight, bias, 1, rows, params, "per-channel", never, rounding=True)
    assert found is not None and np.array_equal(found.rounded.weight, found.nearest.weight)
