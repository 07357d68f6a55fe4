"""Every figure of the clipping report agrees with quantizing the values themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quantflow.artifacts.ranges_record import ClippingRow
from quantflow.numerics.quantize import LARGEST, activation_params, dequantize, quantize
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.clipping import Subject, clipping_rows
from quantflow.ranges.grid import empty, observe

from .shapes import adversarial


def _row(values: NDArray[np.float32], bounds: Bounds, **changes: Any) -> ClippingRow:
    settings: dict[str, Any] = {
        "tensor": "t",
        "group": "g",
        "split": "calibration",
        "symmetric": False,
        "ids": ["a"],
        "sample_low": np.array([values.min(initial=0)], np.float64),
        "sample_high": np.array([values.max(initial=0)], np.float64),
    }
    subject = Subject(**settings | changes)
    (row,) = clipping_rows(observe(values), {"c": bounds}, "c", subject)
    return row


@pytest.mark.parametrize("name", ["one-sided", "heavy tail", "asymmetric", "zero spike"])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("symmetric", [False, True])
def test_figures_are_those_of_the_quantized_values(
    name: str, share: float, symmetric: bool
) -> None:
    values = adversarial()[name]
    bounds = Bounds(float(values.min()) * share, float(values.max()) * share)
    row = _row(values, bounds, symmetric=symmetric)
    params = activation_params(*bounds, symmetric=symmetric)
    x = values.astype(np.float64)
    level = np.rint(x / params.scale) + params.zero_point
    lowest = -127 if symmetric else -128
    assert row.low == pytest.approx((lowest - params.zero_point) * params.scale)
    assert row.high == pytest.approx((127 - params.zero_point) * params.scale)
    assert row.absmax == np.abs(values).max()
    under, over = level < lowest, level > 127
    assert row.clipped_low_fraction == pytest.approx(under.mean(), rel=0.05, abs=1e-4)
    assert row.clipped_high_fraction == pytest.approx(over.mean(), rel=0.05, abs=1e-4)
    lost = np.where(under, x**2 - row.low**2, 0) + np.where(over, x**2 - row.high**2, 0)
    assert row.energy_lost_fraction == pytest.approx(lost.sum() / (x**2).sum(), rel=0.02, abs=1e-4)
    noise = x - dequantize(quantize(values, params), params)
    expected_db = 10 * np.log10((x**2).sum() / (noise**2).sum())
    assert row.sqnr_db == pytest.approx(expected_db, abs=0.3)
    inner = ((x > 0.9 * row.high) & ~over & (row.high > 0)) | (
        (x < 0.9 * row.low) & ~under & (row.low < 0)
    )
    assert row.near_threshold_fraction == pytest.approx(inner.mean(), rel=0.1, abs=1e-3)


# Beyond LARGEST the last level would not be finite, so activation_params clips there.
REPRESENTABLE = [name for name, x in adversarial().items() if np.abs(x).max() <= LARGEST]


@pytest.mark.parametrize("name", REPRESENTABLE)
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_observed_extremes_clip_nothing(name: str, symmetric: bool) -> None:
    values = adversarial()[name]
    row = _row(values, Bounds(float(values.min()), float(values.max())), symmetric=symmetric)
    assert (row.clipped_low_fraction, row.clipped_high_fraction) == (0, 0)
    assert row.energy_lost_fraction == 0
    assert row.clipping_ratio <= 1
    assert row.flag == ""


def test_the_ratio_tells_how_far_values_exceed_the_bound() -> None:
    values = np.linspace(-1, 8, 1000, dtype=np.float32)
    row = _row(values, Bounds(-1, 2))
    assert row.clipping_ratio == pytest.approx(4, rel=0.01)
    assert row.clipped_high_fraction == pytest.approx(6 / 9, abs=0.01)
    assert "clipped" in row.flag and "energy" in row.flag


def test_the_samples_that_reach_furthest_come_first() -> None:
    low = np.array([-1, -9, -1, -1, np.inf])
    high = np.array([1, 1, 5, 30, -np.inf])
    row = _row(
        np.float32([-9, 30]),
        Bounds(-2, 20),
        ids=["a", "b", "c", "d", "padding only"],
        sample_low=low,
        sample_high=high,
    )
    assert row.worst_samples == ("d", "b", "a")
    tie = _row(
        np.float32([-1, 1]),
        Bounds(-1, 1),
        ids=["b", "a"],
        sample_low=np.array([-1.0, -1.0]),
        sample_high=np.array([1.0, 1.0]),
    )
    assert tie.worst_samples == ("a", "b")


def test_held_out_values_beyond_the_calibrated_range_are_flagged() -> None:
    calibrated = observe(np.float32([-1, 9]))
    for value, flagged in ((9.0, False), (9.9, False), (10.2, True), (100.0, True)):
        row = _row(np.float32([0, value]), Bounds(-1, 9), split="heldout", calibrated=calibrated)
        assert ("calibrated" in row.flag) == flagged
    unseen = _row(np.float32([0, 1]), Bounds(0, 0), split="heldout", calibrated=empty())
    assert "calibrated" in unseen.flag


def test_a_tensor_without_values_has_a_row_of_nothing() -> None:
    row = _row(np.zeros(0, np.float32), Bounds(0, 0))
    assert (row.absmax, row.clipping_ratio, row.energy_lost_fraction) == (0, 0, 0)
    assert (row.clipped_low_fraction, row.near_threshold_fraction) == (0, 0)
    assert np.isnan(row.sqnr_db)


def test_rows_cover_every_candidate_and_mark_the_one_in_force() -> None:
    values = np.float32([-1, 1])
    subject = Subject("t", "g", "calibration", True, ["a"], np.array([-1.0]), np.array([1.0]))
    candidates = {"minmax": Bounds(-1, 1), "kl": Bounds(-0.5, 0.5)}
    rows = clipping_rows(observe(values), candidates, "kl", subject)
    assert [(row.candidate, row.chosen) for row in rows] == [("minmax", False), ("kl", True)]
