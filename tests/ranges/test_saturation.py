"""Saturation: more clipped than was bargained for fails, within what sample counts explain."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from scipy import stats
from scipy.special import rel_entr

from quantflow.artifacts.coverage_record import CoverageRow
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.coverage import coverage_report, coverage_row
from quantflow.ranges.grid import observe
from quantflow.ranges.saturation import (
    LEAST_EXCESS,
    largest_share,
    near_fraction,
    saturation_p_value,
)

from .test_coverage import row, statistics


def _judged(calibration: np.ndarray, now: np.ndarray, bound: float) -> CoverageRow:
    return row(calibration, now, chosen=(-bound, bound), tensors=50)


def test_a_clipped_range_that_deployment_fills_does_not_pass() -> None:
    # Bound 4, but calibration's one extreme is 30: no sample leaves the extremes.
    rng = np.random.default_rng(0)
    calibration = np.abs(rng.normal(size=(64, 512))) * 0.9
    calibration[5, 7] = 30
    now = np.minimum(np.abs(rng.normal(size=(200, 512)) * 8), 29)
    found = _judged(calibration, now, 4.0)
    share = (now > 4).mean()
    assert found.clipped_fraction == pytest.approx(share, abs=0.01) and share > 0.3
    assert found.calibration_clipped_fraction < 1e-3
    assert found.p_value == 1 and found.verdict == "fail"
    (reason,) = coverage_report([found], 64, 200).reasons
    assert reason.startswith("group: the range in force clips ") and "at calibration" in reason


def test_what_a_range_clips_on_purpose_is_no_excess() -> None:
    rng = np.random.default_rng(1)
    found = _judged(rng.normal(size=(64, 64)), rng.normal(size=(200, 64)), 1.0)
    assert found.clipped_fraction > 0.3 and found.verdict == "pass"


def test_a_small_but_certain_excess_warns_and_a_tiny_one_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    calibration = rng.uniform(-1, 1, (200, 500))
    now = rng.uniform(-1, 1, (400, 500))
    calibration[0, :2] = -30, 30
    for share, verdict in ((0.03, "warn"), (LEAST_EXCESS / 2, "pass")):
        some = np.where(rng.random(now.shape) < share, 2.0, now)
        found = _judged(calibration, some, 1.0)
        assert found.verdict == verdict
        assert found.clipped_p_value < 0.01 or verdict == "pass"


def test_a_few_samples_that_are_clipped_whole_are_chance() -> None:
    # 2 of 40 samples of a kind that 64 calibration samples may well have missed.
    rng = np.random.default_rng(3)
    calibration, now = rng.uniform(-1, 1, (64, 100)), rng.uniform(-1, 1, (40, 100))
    calibration[0, :2] = -30, 30
    now[:2] = 5
    found = _judged(calibration, now, 1.0)
    assert found.clipped_fraction == pytest.approx(0.05, abs=0.01)
    assert found.verdict == "pass"


@pytest.mark.parametrize("kind", ["even", "all or nothing", "skewed", "heavy"])
def test_draws_of_one_distribution_rarely_differ(kind: str) -> None:
    rng = np.random.default_rng(4)
    draw = {
        "even": lambda n: rng.uniform(0.01, 0.05, n),
        "all or nothing": lambda n: (rng.random(n) < 0.1).astype(float),
        "skewed": lambda n: rng.beta(0.2, 2, n),
        "heavy": lambda n: np.minimum(0.005 * (1 + rng.pareto(1.2, n)), 1),
    }[kind]
    for n, m in ((64, 200), (16, 16), (200, 40)):
        below = 0
        for _ in range(500):
            a, b = draw(n), draw(m)
            largest = largest_share(float(b.mean()), float((b > 0).mean()))
            below += saturation_p_value(float(a.mean()), float(b.mean()), n, m, largest) < 0.01
        assert below <= stats.binom.ppf(0.9999, 500, 0.01)


def test_the_bound_is_hoeffding_s_and_holds_for_coins() -> None:
    n, m, low, high = 30, 50, 0.1, 0.4
    q = (n * low + m * high) / (n + m)

    def divergence(p: float) -> float:
        return float(rel_entr(p, q) + rel_entr(1 - p, 1 - q))

    found = saturation_p_value(low, high, n, m)
    assert found == pytest.approx(exp(-n * divergence(low) - m * divergence(high)))
    coins = stats.binom.cdf(n * low, n, q) * stats.binom.sf(m * high - 1, m, q)
    assert coins <= found
    assert saturation_p_value(0.4, 0.4, n, m) == saturation_p_value(0.4, 0.1, n, m) == 1
    assert saturation_p_value(0.0, 1.0, 5, 5) == pytest.approx(0.5**10)


def test_values_near_a_bound_are_counted() -> None:
    rng = np.random.default_rng(5)
    values = rng.uniform(-2, 1, 50_000).astype(np.float32)
    for low, high in ((-1.5, 0.5), (-1.0, 1.0), (-4.0, 0.25)):
        near = ((values >= low) & (values <= 0.9 * low)) | (
            (values <= high) & (values >= 0.9 * high)
        )
        found = near_fraction(observe(values), Bounds(low, high))
        assert found == pytest.approx(near.mean(), abs=0.004)
    # A bound of zero has nothing near it, and values at a bound are inside.
    relu = np.maximum(values, 0)
    assert near_fraction(observe(relu), Bounds(0, 1)) == pytest.approx(
        (relu >= 0.9).mean(), abs=0.004
    )
    assert near_fraction(observe(np.full(9, 3, np.float32)), Bounds(0, 3)) == 1
    assert near_fraction(observe(np.full(9, -3, np.float32)), Bounds(-3, 0)) == 1


def test_a_row_tells_what_is_near_now_and_was_near_then() -> None:
    rng = np.random.default_rng(6)
    then, now = rng.uniform(-1, 1, (40, 100)), np.sign(rng.normal(size=(40, 100))) * 0.95
    held, seen = statistics(now), observe(then.astype(np.float32))
    found = coverage_row("t", "g", seen, held, (), Bounds(-1, 1), samples=40, tensors=1)
    assert found.near_threshold_fraction == pytest.approx(1, abs=0.01)
    assert found.calibration_near_threshold_fraction == pytest.approx(0.1, abs=0.02)
