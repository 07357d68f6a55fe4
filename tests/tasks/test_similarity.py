"""Similarity is Spearman's correlation over pairs of different documents."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from quantflow.tasks.similarity import similarity_interval, similarity_score


def _random(count: int, seed: int, noise: float = 1.0) -> tuple[Any, Any]:
    """Embeddings, and scores that are their cosine plus noise, rounded so that ties occur."""
    rng = np.random.default_rng(seed)
    embeddings = rng.standard_normal((count, 6)).astype(np.float32)
    cosines = np.array([[_cosine(a, b) for b in embeddings] for a in embeddings])
    return embeddings, np.round(cosines + noise * rng.standard_normal((count, count)), 1)


def _cosine(a: Any, b: Any) -> float:
    x, y = a.astype(np.float64), b.astype(np.float64)
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def _by_pairs(embeddings: Any, scores: Any, draw: list[int]) -> float:
    """Brute force over the pairs of a draw, with scipy's own Spearman."""
    x, y = [], []
    for i in range(len(draw)):
        for j in range(i + 1, len(draw)):
            a, b = sorted((draw[i], draw[j]))
            if a != b:
                x.append(_cosine(embeddings[a], embeddings[b]))
                y.append(scores[a, b])
    return float(stats.spearmanr(x, y).statistic)


@settings(max_examples=40)
@given(count=st.integers(4, 14), seed=st.integers(0, 10**6))
def test_the_score_is_scipys_spearman_over_the_upper_triangle(count: int, seed: int) -> None:
    embeddings, scores = _random(count, seed)
    expected = _by_pairs(embeddings, scores, list(range(count)))
    assert similarity_score(embeddings, scores) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    power=st.integers(-8, 8),
    low=st.floats(-5, 5),
    factor=st.floats(0.5, 5),
)
def test_the_score_depends_on_directions_and_ranks_alone(
    seed: int, power: int, low: float, factor: float
) -> None:
    embeddings, scores = _random(8, seed)
    other = similarity_score(embeddings * np.float32(2.0**power), np.exp(scores) * factor + low)
    assert other == pytest.approx(similarity_score(embeddings, scores), abs=1e-6)


def test_what_lies_on_and_below_the_diagonal_does_not_count() -> None:
    embeddings, scores = _random(10, 1)
    other = np.triu(scores, 1) + np.tril(np.full((10, 10), np.nan))
    other[np.diag_indices(10)] = 99
    assert similarity_score(embeddings, other) == similarity_score(embeddings, scores)
    got = similarity_interval(embeddings, np.triu(scores, 1), seed=0, resamples=50)
    assert got == similarity_interval(embeddings, scores, seed=0, resamples=50)


def test_the_interval_is_that_of_resampled_documents_without_their_own_pairs() -> None:
    embeddings, scores = _random(9, 3, noise=0.3)
    rng = np.random.default_rng(11)
    values = [_by_pairs(embeddings, scores, rng.integers(0, 9, 9).tolist()) for _ in range(60)]
    expected = np.quantile(values, [0.05, 0.95])
    got = similarity_interval(embeddings, scores, seed=11, resamples=60, confidence=0.9)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_a_perfect_model_scores_one_and_a_reversed_one_minus_one() -> None:
    embeddings, _ = _random(8, 4)
    exact = np.array([[_cosine(a, b) for b in embeddings] for a in embeddings])
    assert similarity_score(embeddings, exact) == pytest.approx(1)
    assert similarity_score(embeddings, -exact) == pytest.approx(-1)


def test_what_has_no_order_gives_nan() -> None:
    embeddings, scores = _random(6, 5)
    broken = embeddings.copy()
    broken[2, 1] = np.nan
    for x, y in ((embeddings, np.ones((6, 6))), (broken, scores), (embeddings[:2], scores[:2, :2])):
        assert np.isnan(similarity_score(x, y))
        assert np.isnan(similarity_interval(x, y, seed=0)).all()


def test_a_thousand_resamples_of_fifty_documents_take_about_a_second() -> None:
    embeddings, scores = _random(50, 7)
    start = time.perf_counter()
    low, high = similarity_interval(embeddings, scores, seed=0)
    # About 0.3 s on one core; the margin is for busy machines.
    assert time.perf_counter() - start < 5
    assert low < similarity_score(embeddings, scores) < high
