"""Integers that make the least of the error, against brute force and the definition of GPTQ."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from quantflow.recovery.rounding import DAMPING, round_weight

ONE = np.ones(1, np.float32)


def drawn(
    seed: int, depth: int, width: int = 1, rows: int = 40, size: float = 6.0
) -> tuple[np.ndarray, np.ndarray]:
    """A weight in steps, ``(K, N)``, and second moments of correlated inputs, ``(K, K)``."""
    rng = np.random.default_rng(seed)
    weight = rng.uniform(-size, size, (depth, width)).astype(np.float32)
    mixing = rng.normal(size=(depth, depth)) + 2
    x = rng.normal(size=(rows, depth)) @ mixing
    return weight, x.T @ x


def objective(weight: np.ndarray, steps: np.ndarray, moments: np.ndarray) -> float:
    """``||X (w - q)||^2`` of the columns together."""
    error = weight.astype(np.float64) - steps
    return float(np.einsum("kn,kl,ln->", error, moments, error))


def optimum(weight: np.ndarray, moments: np.ndarray, around: int) -> float:
    """The least of all integers of a column that lie within `around` steps of the weight."""
    (column,) = weight.T
    choices = [np.arange(np.floor(w) - around, np.ceil(w) + around + 1) for w in column]
    return min(objective(weight, np.array(x)[:, None], moments) for x in product(*choices))


def gptq(weight: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Optimal brain surgery row by row in float64.

    What rounding row q adds is taken from the rows left by ``-e / H^-1[q, q] * H^-1[q]``, and then
    q is taken out of the inverse.
    """
    depth = len(weight)
    inverse = np.linalg.inv(moments / np.diag(moments).mean() + DAMPING * np.eye(depth))
    left, steps = weight.astype(np.float64), np.zeros(weight.shape)
    for row in sorted(range(depth), key=lambda k: -moments[k, k]):
        steps[row] = np.clip(np.rint(left[row]), -127, 127)
        error = left[row] - steps[row]
        left -= np.outer(inverse[row] / inverse[row, row], error)
        inverse = inverse - np.outer(inverse[row], inverse[row]) / inverse[row, row]
    return steps


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_it_is_between_the_optimum_and_rounding_to_nearest(depth: int) -> None:
    ratios, excess = list[float](), list[float]()
    for seed in range(40):
        weight, moments = drawn(seed, depth)
        steps = round_weight(weight[None], ONE, moments[None])[0]
        found = objective(weight, steps, moments)
        nearest = objective(weight, np.rint(weight), moments)
        best = optimum(weight, moments, around=2 if depth == 4 else 4)
        assert found >= best * (1 - 1e-9) or depth > 2  # of the last two, the box may be too small
        ratios.append(found / nearest)
        excess.append(best / nearest)
        assert found >= min(best, nearest) * 0.01
    if depth == 1:
        assert np.allclose(ratios, 1)
    else:
        geometric = np.exp(np.log(ratios).mean())
        assert geometric < 0.75
        assert geometric >= np.exp(np.log(excess).mean())


@pytest.mark.parametrize(("depth", "width"), [(2, 3), (5, 4), (40, 8), (150, 3), (300, 2)])
def test_it_is_gptq_by_its_definition(depth: int, width: int) -> None:
    # More rows than a block has; a tie that float32 breaks otherwise may change what follows it.
    weight, moments = drawn(depth, depth, width, rows=3 * depth, size=100)
    steps = round_weight(weight[None], ONE, moments[None])[0]
    expected = gptq(weight, moments)
    same = (steps == expected).all(axis=0)
    assert same.mean() >= 0.5
    nearest = objective(weight, np.rint(weight), moments)
    found, wanted = (objective(weight, x, moments) for x in (steps, expected))
    assert wanted < nearest and abs(found - wanted) < 0.05 * nearest


def test_inputs_that_know_nothing_of_each_other_leave_rounding_to_nearest() -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(scale=40, size=(2, 30, 7)).astype(np.float32)
    diagonal = np.stack([np.diag(x) for x in rng.uniform(0, 5, (2, 30))])
    found = round_weight(weight, ONE, diagonal)
    assert np.array_equal(found, np.clip(np.rint(weight), -127, 127))


def test_scales_are_units_of_the_weight_per_step() -> None:
    weight, moments = drawn(3, 6, 4)
    scales = np.float32([0.25, 2, 1, 0.5])  # exact in float32
    found = round_weight((weight * scales)[None], scales[None, None], moments[None])
    assert np.array_equal(found, round_weight(weight[None], ONE, moments[None]))


def test_groups_are_rounded_as_if_each_were_alone() -> None:
    pairs = [drawn(seed, 9, 4, size=90) for seed in range(3)]
    weight, moments = (np.stack(x) for x in zip(*pairs, strict=True))
    scales = np.exp(np.random.default_rng(1).normal(size=(3, 1, 4))).astype(np.float32)
    together = round_weight(weight * scales, scales, moments)
    for group in range(3):
        only = slice(group, group + 1)
        alone = round_weight((weight * scales)[only], scales[only], moments[only])
        assert np.array_equal(together[only], alone)


def test_columns_are_rounded_as_if_each_were_alone() -> None:
    weight, moments = drawn(4, 20, 5, size=90)
    together = round_weight(weight[None], ONE, moments[None])
    for column in range(5):
        only = weight[None, :, column : column + 1]
        alone = round_weight(only, ONE, moments[None])
        assert np.array_equal(together[..., column : column + 1], alone)


@pytest.mark.parametrize("seed", range(5))
def test_steps_stay_in_the_range_of_int8(seed: int) -> None:
    weight, moments = drawn(seed, 12, 6, size=300)
    found = round_weight(weight[None], ONE, moments[None])
    assert found.dtype == np.int8 and found.shape == (1, 12, 6)
    assert found.min() == -127 and found.max() == 127


def test_inputs_that_are_always_zero_do_no_harm() -> None:
    weight, moments = drawn(7, 8, 3)
    nothing = np.zeros((1, 8, 8))
    assert np.array_equal(round_weight(weight[None], ONE, nothing)[0], np.rint(weight))
    dead = [2, 5]
    moments[dead] = moments[:, dead] = 0
    found = round_weight(weight[None], ONE, moments[None])[0]
    assert np.array_equal(found[dead], np.rint(weight[dead]))
    live = [k for k in range(8) if k not in dead]
    assert objective(weight, found, moments) < objective(weight, np.rint(weight), moments)
    assert not np.array_equal(found[live], np.rint(weight[live]))


def test_inputs_that_say_the_same_share_the_error() -> None:
    # X has rank one: only the sum over the rows counts, which 0.4 three times rounds to 0.
    weight = np.full((1, 3, 1), 0.4, np.float32)
    found = round_weight(weight, ONE, np.ones((1, 3, 3)))
    assert found.sum() == 1
