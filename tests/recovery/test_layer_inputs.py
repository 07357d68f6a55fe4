"""Rows of a layer and what they weigh, against the formulas written out."""

from __future__ import annotations

import numpy as np
import pytest

from quantflow.numerics.quantize import QuantParams
from quantflow.recovery.layer_inputs import LayerInputs, layer_inputs

PARAMS = QuantParams(0.03125, -17)
"""A scale that is a power of two, so that the grid is exact in float32."""


def made(groups: int, depth: int = 4, width: int = 3, rows: int = 12) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(groups)
    x = rng.normal(size=(rows, groups * depth)).astype(np.float32)
    return x, rng.normal(size=(groups, depth, width)).astype(np.float32)


def of(x: np.ndarray, weight: np.ndarray) -> LayerInputs:
    found = layer_inputs(x, PARAMS, weight)
    assert found is not None
    return found


@pytest.mark.parametrize("groups", [1, 3])
def test_rows_their_grid_and_their_outputs(groups: int) -> None:
    x, weight = made(groups)
    found = of(x, weight)
    steps = np.clip(np.rint(x / 0.03125) - 17, -128, 127)
    grid = (steps + 17) * 0.03125
    for g in range(groups):
        part = slice(4 * g, 4 * g + 4)
        assert np.array_equal(found.exact[g], x[:, part])
        assert np.array_equal(found.quantized[g], grid[:, part])
        assert np.allclose(found.output[g], x[:, part] @ weight[g], atol=1e-5)
    outputs = np.concatenate([x[:, 4 * g : 4 * g + 4] @ weight[g] for g in range(groups)], axis=1)
    assert np.allclose(found.weights, 1 / (outputs.astype(np.float64) ** 2).sum(axis=1), rtol=1e-4)


@pytest.mark.parametrize("groups", [1, 3])
def test_moments_mean_and_size_by_their_definitions(groups: int) -> None:
    x, weight = made(groups)
    found = of(x, weight)
    error = np.random.default_rng(9).normal(size=(groups, 12, 3)).astype(np.float32)
    output, wide = found.output.astype(np.float64), error.astype(np.float64)
    power = [(output[:, r] ** 2).sum() for r in range(12)]
    size = np.mean([(wide[:, r] ** 2).sum() / power[r] for r in range(12)])
    assert found.size(error) == pytest.approx(size, rel=1e-5)
    weighted = sum(wide[:, r] / power[r] for r in range(12)) / sum(1 / p for p in power)
    assert np.allclose(found.mean(error), weighted, atol=1e-5)
    for g in range(groups):
        rows = found.quantized[g].astype(np.float64)
        moments = sum(np.outer(rows[r], rows[r]) * min(power) / power[r] for r in range(12))
        assert np.allclose(found.moments()[g], moments, rtol=1e-4, atol=1e-6)


def test_the_error_is_what_the_quantized_rows_lack() -> None:
    x, weight = made(2)
    found = of(x, weight)
    other = np.round(weight * 4) / 4
    for g in range(2):
        lacking = found.exact[g] @ weight[g] - found.quantized[g] @ other[g]
        assert np.allclose(found.error(other)[g], lacking, atol=1e-5)
    assert found.size(found.output) == pytest.approx(1)


def test_rows_without_an_output_do_not_count() -> None:
    x, weight = made(1)
    weight[0, 3] = 0
    x[4] = 0
    x[7, :3] = 0  # the one that is left meets a zero
    found = of(x, weight)
    assert np.array_equal(found.exact[0], np.delete(x, [4, 7], axis=0))
    assert found.output.shape[1] == found.weights.size == 10
    assert layer_inputs(x[[4, 7]], PARAMS, weight) is None
    assert layer_inputs(x, PARAMS, np.zeros_like(weight)) is None
    assert layer_inputs(x[:0], PARAMS, weight) is None


def test_outputs_beyond_float32_do_not_count() -> None:
    x, weight = made(1)
    x[3] = 1e30
    with np.errstate(over="ignore"):
        found = of(x, weight * np.float32(1e10))
    assert found.weights.size == 11 and np.isfinite(found.size(found.output))
