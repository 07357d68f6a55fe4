"""The classifier test against definitions and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import approx_fprime

from quantflow.calibration.drift.classifier import area_under_curve, classifier_test
from quantflow.calibration.drift.logistic import fit_logistic, standardize


def _keys(count: int) -> list[str]:
    return [f"{i:04d}" for i in range(count)]


def test_auc_is_the_mann_whitney_statistic() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 5, 13).astype(float), rng.integers(1, 6, 7).astype(float)
        expected = stats.mannwhitneyu(a, b).statistic / (13 * 7)
        found = area_under_curve(a, b)
        assert found.auc == pytest.approx(expected)
        assert 0 <= found.low <= found.auc <= found.high <= 1


def test_the_interval_holds_the_true_area_in_95_of_100_cases() -> None:
    rng = np.random.default_rng(1)
    true = stats.norm.cdf(1 / 2**0.5)  # of two normals one standard deviation apart
    held = 0
    for _ in range(400):
        found = area_under_curve(rng.standard_normal(60) + 1, rng.standard_normal(80))
        held += found.low <= true <= found.high
    assert 0.91 < held / 400 < 0.985


def test_perfect_separation_still_has_an_interval() -> None:
    found = area_under_curve(np.arange(20) + 100.0, np.arange(30.0))
    assert found.auc == found.high == 1
    assert 0.6 < found.low < 0.98


def test_the_coefficients_minimise_the_loss() -> None:
    rng = np.random.default_rng(2)
    rows, positive = rng.standard_normal((40, 3)), np.arange(40) < 12

    def loss(point: np.ndarray) -> float:
        total = 2.0 * point[:3] @ point[:3] / 2
        for row, mine in zip(rows, positive, strict=True):
            margin = (1 if mine else -1) * (row @ point[:3] + point[3])
            total += 20 / (12 if mine else 28) * np.log1p(np.exp(-margin))
        return total

    weights, intercept = fit_logistic(rows, positive, penalty=2.0)
    slope = approx_fprime(np.append(weights, intercept), loss, 1e-6)
    np.testing.assert_allclose(slope, 0, atol=1e-2)


def test_standardizing_is_relative_to_the_reference_and_bounded() -> None:
    reference = np.array([[1.0, 7.0], [3.0, 7.0]])
    rows = np.array([[2.0, 7.0], [5.0, 7.1], [99.0, 6.9]])
    moments = reference.mean(axis=0), reference.std(axis=0)
    np.testing.assert_allclose(standardize(rows, *moments), [[0, 0], [3, 5], [5, -5]])


def test_equal_sources_cannot_be_told_apart_and_shifted_ones_can() -> None:
    rng = np.random.default_rng(3)
    same = classifier_test(rng.normal(size=(80, 5)), rng.normal(size=(120, 5)), _keys(200))
    assert same.low < 0.5
    shifted = classifier_test(rng.normal(size=(80, 5)) + 1, rng.normal(size=(120, 5)), _keys(200))
    # Five independent shifts of one standard deviation: the best possible is 0.943.
    assert shifted.auc == pytest.approx(stats.norm.cdf((5 / 2) ** 0.5), abs=0.04)


def test_repeated_samples_are_not_recognised_from_their_copies() -> None:
    rng = np.random.default_rng(4)
    a = np.repeat(rng.normal(size=(20, 30)), 10, axis=0)
    keys = [f"a{i // 10}" for i in range(200)] + _keys(200)
    found = classifier_test(a, rng.normal(size=(200, 30)), keys)
    assert found.auc < 0.7


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    a, b, keys = rng.normal(size=(30, 4)), rng.normal(size=(40, 4)), _keys(70)
    order = rng.permutation(30)
    again = classifier_test(a[order], b, [keys[i] for i in order] + keys[30:])
    assert again.auc == pytest.approx(classifier_test(a, b, keys).auc, abs=2e-3)
