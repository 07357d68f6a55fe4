"""A sketch of a sample's joint distribution: means of random features of a Gaussian kernel.

The inner product of two means is the mean of the kernel over all pairs of samples (Rahimi and Recht
2007), so means are all that the maximum mean discrepancy and kernel herding need of a sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.drift.logistic import standardize
from quantflow.calibration.features.table import FeatureTable

FREQUENCIES = 256
"""Random frequencies, of which a sine and a cosine each are taken."""

TAIL_FRACTION = 0.1
"""Share of a deployment sample that is its tail: the samples furthest from its mean."""

UNLIKE_QUANTILE = 0.01
"""Share of a deployment sample that may itself lie in less dense places than a candidate must."""

LEAST_WIDTH = 1e-6
"""Width of the kernel at least: where one sample lies far from many that are nearly equal."""

_MEDIAN_ROWS = 1000
"""Rows that the median distance is taken over."""

_CHUNK = 4096

_Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KernelSketch:
    """What is kept of the joint distribution of F scalar features.

    Attributes:
        names: of the features.
        centre, spread: ``(F,)`` mean and standard deviation of the sample.
        width: standard deviation of the kernel, in standardized units.
        edge: distance from the mean, in standardized units, from which a sample is in the tail.
        least_density: the sample's density that all but 1% of it are above.
        sums: ``(G, 2 * FREQUENCIES)`` float32 sums of the random features over the samples of
            every block.
        sizes: ``(G,)`` int64 how many these are.
        tail: ``(2 * FREQUENCIES,)`` float32 their sum over the tail.
        tail_size: how many samples are in the tail.
    """

    names: tuple[str, ...]
    centre: _Rows
    spread: _Rows
    width: float
    edge: float
    least_density: float
    sums: NDArray[np.float32]
    sizes: NDArray[np.int64]
    tail: NDArray[np.float32]
    tail_size: int

    def standardized(self, table: FeatureTable) -> _Rows:
        """The features of samples in standard deviations from the mean, within 5; ``(N, F)``."""
        return standardize(table.columns(self.names), self.centre, self.spread)

    def features(self, rows: _Rows) -> _Rows:
        """Random features of standardized rows, ``(N, 2 * FREQUENCIES)``, each of length 1."""
        return random_features(rows, self.width)

    @property
    def mean(self) -> _Rows:
        """Mean of the random features over all samples, ``(2 * FREQUENCIES,)``."""
        return self._total / max(int(self.sizes.sum()), 1)

    @property
    def mean_of_tail(self) -> _Rows:
        """Their mean over the tail; zero where it is empty."""
        return self.tail.astype(np.float64) / max(self.tail_size, 1)

    @property
    def mean_of_bulk(self) -> _Rows:
        """Their mean over all but the tail; zero where that is empty."""
        return (self._total - self.tail) / max(int(self.sizes.sum()) - self.tail_size, 1)

    @property
    def tail_fraction(self) -> float:
        """Share of the sample that is in the tail, 0-1."""
        return self.tail_size / max(int(self.sizes.sum()), 1)

    @property
    def _total(self) -> _Rows:
        return self.sums.sum(axis=0, dtype=np.float64)

    def density(self, rows: _Rows) -> _Rows:
        """Mean of the kernel between each standardized row and the sample, about 0-1; ``(N,)``."""
        mean = self.mean
        return np.concatenate([np.zeros(0), *(self.features(x) @ mean for x in _chunks(rows))])


def sketch_kernel(
    names: tuple[str, ...], values: _Rows, blocks: NDArray[np.intp], count: int
) -> KernelSketch:
    """Sketch a sample.

    Args:
        names: of the features.
        values: ``(N, F)``, in an order that follows from the samples' content.
        blocks: ``(N,)`` block of every sample.
        count: number of blocks.
    """
    centre, spread = values.mean(axis=0), values.std(axis=0)
    rows = standardize(values, centre, spread)
    width = max(median_distance(rows[:_MEDIAN_ROWS]), LEAST_WIDTH)
    radius = np.linalg.norm(rows, axis=1)
    edge = float(np.quantile(radius, 1 - TAIL_FRACTION))
    sums = np.zeros((count, 2 * FREQUENCIES))
    tail = np.zeros(2 * FREQUENCIES)
    for start in range(0, len(rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        features = random_features(rows[part], width)
        np.add.at(sums, blocks[part], features)
        tail += features[radius[part] > edge].sum(axis=0)
    sketch = KernelSketch(
        names=names,
        centre=centre,
        spread=spread,
        width=width,
        edge=edge,
        least_density=0.0,
        sums=sums.astype(np.float32),
        sizes=np.bincount(blocks, minlength=count).astype(np.int64),
        tail=tail.astype(np.float32),
        tail_size=int((radius > edge).sum()),
    )
    return replace(sketch, least_density=float(np.quantile(sketch.density(rows), UNLIKE_QUANTILE)))


def random_features(rows: _Rows, width: float) -> _Rows:
    """Cosines and sines whose inner products are about ``exp(-|x - y|^2 / (2 width^2))``.

    Args:
        rows: ``(N, F)``.
        width: standard deviation of the kernel.

    Returns:
        ``(N, 2 * FREQUENCIES)``, each row of length 1.
    """
    angles = rows @ (_frequencies(rows.shape[1]) / width)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / np.sqrt(FREQUENCIES)


def median_distance(rows: _Rows) -> float:
    """Median distance of two rows, a common width of the kernel (Gretton et al. 2012); 1 if 0."""
    squares = (rows**2).sum(axis=1)
    squared = np.maximum(squares[:, None] + squares[None] - 2 * rows @ rows.T, 0)
    distances = np.sqrt(squared[np.triu_indices(len(rows), 1)])
    return (float(np.median(distances)) if distances.size else 0.0) or 1.0


@lru_cache(maxsize=8)
def _frequencies(size: int) -> _Rows:
    return np.random.default_rng([size, 11]).standard_normal((size, FREQUENCIES))


def _chunks(rows: _Rows) -> Iterator[_Rows]:
    return (rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))
