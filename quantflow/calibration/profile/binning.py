"""Histograms of features, with bins that follow the deployment sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.profile.rounding import FeatureGrid

EXTREMES = 16
"""Cells at each end of a feature that have a bin of their own each."""

MIDDLE = 32
"""Bins for those in between, of equal shares."""

EDGES = 2 * EXTREMES + MIDDLE + 1
"""Edges of a feature: those of the inner bins, padded with infinity where there are fewer."""

BINS = EDGES + 1
"""Bins of a feature: the inner ones, and one at each end that deployment leaves empty."""


def bin_edges(cells: NDArray[np.int64], grid: FeatureGrid) -> NDArray[np.float64]:
    """Edges for every column of a deployment sample: borders of cells.

    A bin starts at its edge. The first bin lies below all cells of the sample, the last above. Of a
    column with few different cells, each has a bin of its own.

    Args:
        cells: ``(N, F)`` of the sample, N at least 1.
        grid: what they are cells of.

    Returns:
        ``(F, EDGES)``, ascending.
    """
    ordered = np.sort(cells, axis=0)
    return np.stack([_edges_of(column, grid, place) for place, column in enumerate(ordered.T)])


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


def _edges_of(ordered: NDArray[np.int64], grid: FeatureGrid, place: int) -> NDArray[np.float64]:
    """Edges of one column, given in ascending order."""
    edges = np.full(EDGES, np.inf)
    if not grid.step[place]:
        edges[:2] = grid.centre[place], np.nextafter(grid.centre[place], np.inf)
        return edges
    distinct = np.unique(ordered)
    # A bin starts half way from the cell before it.
    starts = np.concatenate([distinct[:1] - 0.5, (distinct[:-1] + distinct[1:]) / 2])
    if len(distinct) > 2 * EXTREMES + MIDDLE:
        inner = distinct[EXTREMES:-EXTREMES]
        between = ordered[(ordered >= inner[0]) & (ordered <= inner[-1])]
        ranks = np.linspace(0, len(between), MIDDLE, endpoint=False).astype(np.intp)
        kept = (distinct[:EXTREMES], between[ranks], distinct[-EXTREMES:])
        starts = starts[np.searchsorted(distinct, np.unique(np.concatenate(kept)))]
    borders = np.append(starts, distinct[-1] + 0.5)
    edges[: len(borders)] = grid.values(borders, place)
    return edges
