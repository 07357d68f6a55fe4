# pyright: reportUnknownMemberType=false
"""Semantic similarity: do embeddings order pairs of documents as people do?"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.bootstrap import bootstrap_interval

METRIC = "spearman"


def similarity_score(embeddings: NDArray[np.float32], scores: NDArray[np.float64]) -> float:
    """Spearman's rank correlation of the cosine of two embeddings with a human score.

    Over all pairs of different documents, ties given their mean rank (Spearman 1904).

    Args:
        embeddings: ``(N, D)``, one vector a document; a zero vector has cosine 0 to all others.
        scores: ``(N, N)``, the part above the diagonal is used.

    Returns:
        -1 to 1; NaN where a side is constant or not finite, or with fewer than three documents.
    """
    upper = np.triu_indices(len(embeddings), 1)
    return _spearman(_cosines(embeddings)[upper], scores[upper])


def similarity_interval(
    embeddings: NDArray[np.float32],
    scores: NDArray[np.float64],
    *,
    seed: int,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Bootstrap interval of `similarity_score` over documents.

    Pairs that share a document are not independent, so documents are resampled and not pairs; a
    document drawn twice makes no pair with itself.

    Args:
        embeddings, scores: see `similarity_score`.
        seed: of the resampling.
        resamples: number of resamples.
        confidence: mass of the interval, 0-1.

    Returns:
        Lower and upper end; NaN where the score is NaN.
    """
    if np.isnan(similarity_score(embeddings, scores)):
        return float("nan"), float("nan")
    statistic = similarity_statistic(embeddings, scores)
    return bootstrap_interval(
        statistic, len(embeddings), seed=seed, resamples=resamples, confidence=confidence
    )


def similarity_statistic(
    embeddings: NDArray[np.float32], scores: NDArray[np.float64]
) -> Callable[[NDArray[np.intp]], float]:
    """`similarity_score` of any documents, given by their indices, as in a resample.

    Args:
        embeddings, scores: see `similarity_score`.
    """
    cosines = _cosines(embeddings)
    above = np.triu(scores, 1)
    symmetric = above + above.T
    first, second = np.triu_indices(len(embeddings), 1)

    def of(draw: NDArray[np.intp]) -> float:
        a, b = draw[first], draw[second]
        different = a != b
        a, b = a[different], b[different]
        return _spearman(cosines[a, b], symmetric[a, b])

    return of


def _cosines(embeddings: NDArray[np.float32]) -> NDArray[np.float64]:
    """Cosine of every pair, ``(N, N)``."""
    rows = embeddings.astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        units = rows / np.where(norms > 0, norms, 1)
        return units @ units.T


def _spearman(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Pearson's correlation of the mean ranks of two equally long vectors."""
    from scipy import stats

    if len(x) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return float("nan")
    rank = cast("Callable[[NDArray[np.float64]], NDArray[np.float64]]", stats.rankdata)
    a, b = rank(x), rank(y)
    a, b = a - a.mean(), b - b.mean()
    spread = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / spread if spread > 0 else float("nan")
