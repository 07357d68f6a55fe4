"""What is kept of a deployment sample: histograms and sketches, and no sample.

All of it is made of rounded numbers (see `rounding`), so that none identifies a sample. Everything
is counted in blocks of samples, so that whoever reads a profile can split it in two, and see how
far two halves of the same production lie apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.drift.sample_size import effective_size
from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.profile.binning import bin_centres, bin_counts, bin_edges
from quantflow.calibration.profile.kernel import KernelSketch, sketch_kernel
from quantflow.calibration.profile.rounding import FeatureGrid, rounded_histogram, towards_zero
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.grid import Histogram

BLOCKS = (8, 32)
"""Least and most blocks; between them a block holds four different samples."""


@dataclass(frozen=True, slots=True)
class TensorProfile:
    """Activations of one tensor, padding excluded.

    Attributes:
        histogram: of all its values, see `rounded_histogram`.
        sample_low, sample_high: ``(N,)`` float64 extremes of the finite values of every sample,
            rounded by `towards_zero`; sorted, so that no sample can be followed from one tensor to
            the next.
    """

    histogram: Histogram
    sample_low: NDArray[np.float64]
    sample_high: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Profile:
    """A deployment sample of N samples, in G blocks.

    Attributes:
        names: of the F scalar features.
        edges: ``(F, EDGES)`` float64, see `bin_edges`.
        centres: ``(F, BINS)`` float64 mean of the values in every bin, NaN where there is none.
        scalars: ``(G, F, BINS)`` int64 histograms.
        counts: by name of the feature, ``(G, B)`` int64: how often each of B things occurs.
        categories: by name of the feature, ``(G, C)`` int64: how many samples are of each category.
        inputs: sketch of the scalar features that need no model, which are the first ones.
        joint: sketch of all scalar features.
        samples: N.
        distinct: how many different ones.
        effective: how many different samples would average as steadily.
        model: digest of the model that `tensors` and some features come from, or empty.
        source: where the samples came from, for a person.
        tensors: activations, by name of the tensor; empty without a model.
    """

    names: tuple[str, ...]
    edges: NDArray[np.float64]
    centres: NDArray[np.float64]
    scalars: NDArray[np.int64]
    counts: Mapping[str, NDArray[np.int64]]
    categories: Mapping[str, NDArray[np.int64]]
    inputs: KernelSketch
    joint: KernelSketch
    samples: int
    distinct: int
    effective: float
    model: str = ""
    source: str = ""
    tensors: Mapping[str, TensorProfile] = field(default_factory=dict[str, TensorProfile])

    @property
    def block_sizes(self) -> NDArray[np.int64]:
        """Samples of every block, ``(G,)``."""
        return self.joint.sizes

    def without_model(self) -> Profile:
        """What it says of the inputs alone."""
        count = len(self.inputs.names)
        return replace(
            self,
            names=self.inputs.names,
            edges=self.edges[:count],
            centres=self.centres[:count],
            scalars=self.scalars[:, :count],
            joint=self.inputs,
            model="",
            tensors={},
        )


def make_profile(
    table: FeatureTable,
    input_features: int,
    *,
    model: str = "",
    source: str = "",
    tensors: Mapping[str, TensorStatistics] | None = None,
) -> Profile:
    """The profile of a sample. The order of the samples does not matter.

    Args:
        table: its features, at least one sample.
        input_features: how many of its scalar features, from the first on, need no model.
        model, source: see `Profile`.
        tensors: statistics of the model's tensors on the same samples.
    """
    table = table.sorted()
    blocks, count = _blocks(table.digests)
    grid = FeatureGrid.of(table.values)
    cells = grid.cells(table.values)
    values, edges = grid.values(cells), bin_edges(cells, grid)
    names = table.names[:input_features]
    return Profile(
        names=table.names,
        edges=edges,
        centres=bin_centres(values, edges),
        scalars=bin_counts(values, edges, blocks, count),
        counts={name: _by_block(x, blocks, count) for name, x in table.counts.items()},
        categories={name: _by_block(x, blocks, count) for name, x in table.categories.items()},
        inputs=sketch_kernel(names, values[:, :input_features], blocks, count),
        joint=sketch_kernel(table.names, values, blocks, count),
        samples=len(table),
        distinct=len(set(table.digests)),
        effective=effective_size(table.digests),
        model=model,
        source=source,
        tensors={name: _tensor_profile(seen) for name, seen in (tensors or {}).items()},
    )


def block_count(distinct: int) -> int:
    """Number of blocks for so many different samples."""
    least, most = BLOCKS
    return min(max(distinct // 4, least), most)


def _blocks(digests: Sequence[str]) -> tuple[NDArray[np.intp], int]:
    """Block of every sample, and how many there are: equal samples share one."""
    ranks = {digest: rank for rank, digest in enumerate(sorted(set(digests)))}
    count = block_count(len(ranks))
    return np.array([ranks[digest] % count for digest in digests], np.intp), count


def _by_block(rows: NDArray[np.int64], blocks: NDArray[np.intp], count: int) -> NDArray[np.int64]:
    found = np.zeros((count, rows.shape[1]), np.int64)
    np.add.at(found, blocks, rows)
    return found


def _tensor_profile(seen: TensorStatistics) -> TensorProfile:
    low, high = towards_zero(seen.sample_low), towards_zero(seen.sample_high)
    order = np.lexsort((high, low))
    return TensorProfile(rounded_histogram(seen.histogram), low[order], high[order])
