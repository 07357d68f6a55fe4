"""Histograms of features, with bins that follow the deployment sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

EXTREMES = 16
"""Samples at each end of a feature that have a bin of their own each."""

MIDDLE = 32
"""Bins for those in between, of equal shares."""

EDGES = 2 * EXTREMES + MIDDLE + 1
"""Edges of a feature: those of the inner bins, padded with infinity where there are fewer."""

BINS = EDGES + 1
"""Bins of a feature: the inner ones, and one at each end that deployment leaves empty."""


def bin_edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Edges for every column of a deployment sample.

    A bin starts at its edge. The first bin lies below all of the sample, the last above. Of a
    column with few different values, each has a bin of its own.

    Args:
        values: ``(N, F)``, N at least 1, finite.

    Returns:
        ``(F, EDGES)``, ascending.
    """
    ordered = np.sort(values, axis=0)
    return np.stack([_edges_of(column) for column in ordered.T])


def bin_counts(
    values: NDArray[np.float64], edges: NDArray[np.float64], blocks: NDArray[np.intp], count: int
) -> NDArray[np.int64]:
    """Histograms of some samples, apart for blocks of them.

    Args:
        values: ``(N, F)``.
        edges: ``(F, EDGES)``.
        blocks: ``(N,)`` block of every sample.
        count: number of blocks.

    Returns:
        ``(count, F, BINS)``.
    """
    features = values.shape[1]
    places = places_of(values, edges) + blocks[:, None] * (features * BINS)
    flat = places + _offsets(features)
    counts = np.bincount(flat.ravel(), minlength=count * features * BINS)
    return counts.reshape(count, features, BINS).astype(np.int64)


def places_of(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.intp]:
    """Bin of every value, ``(N, F)``."""
    found = np.zeros(values.shape, np.intp)
    for place, edge in enumerate(edges):
        found[:, place] = np.searchsorted(edge, values[:, place], side="right")
    return found


def bin_centres(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the sample's values in every bin, ``(F, BINS)``; NaN in a bin without any."""
    places = places_of(values, edges) + _offsets(values.shape[1])
    size = values.shape[1] * BINS
    sums = np.bincount(places.ravel(), weights=values.ravel(), minlength=size)
    counts = np.bincount(places.ravel(), minlength=size)
    with np.errstate(invalid="ignore"):
        means = np.asarray(sums / counts, np.float64)
    return means.reshape(-1, BINS)


def _offsets(features: int) -> NDArray[np.intp]:
    """Where the bins of every feature start when they lie one after the other."""
    return BINS * np.arange(features, dtype=np.intp)


def _edges_of(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
    """Edges of one column, given in ascending order."""
    distinct = np.unique(ordered)
    starts = _starts(distinct)
    if len(distinct) > 2 * EXTREMES + MIDDLE:
        last = len(ordered) - 1
        ends = np.arange(EXTREMES)
        middle = np.linspace(EXTREMES, last - EXTREMES, MIDDLE, endpoint=False).round()
        ranks = np.concatenate([ends, middle.astype(np.intp), last - ends])
        starts = starts[np.searchsorted(distinct, np.unique(ordered[ranks]))]
    edges = np.full(EDGES, np.inf)
    edges[: len(starts)] = starts
    edges[len(starts)] = np.nextafter(distinct[-1], np.inf)
    return edges


def _starts(distinct: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where a bin for every value starts: half way from the one before it."""
    half = distinct[:-1] + (distinct[1:] - distinct[:-1]) / 2
    starts = np.where(half > distinct[:-1], half, distinct[1:])
    return np.concatenate([distinct[:1], starts])
