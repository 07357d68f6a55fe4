"""The two sides of a comparison, in the bins of a profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.profile.binning import BINS, bin_centres, bin_counts
from quantflow.calibration.profile.profile import Profile


@dataclass(frozen=True, slots=True)
class Side:
    """One sample, or many at once along the leading axes.

    Attributes:
        scalars: ``(..., F, BINS)`` histograms of the scalar features.
        counts, categories: by name of the feature, ``(..., B)``.
        mean: ``(..., D)`` mean of the random features of all scalar features.
        size: ``(...)`` number of samples.
        effective: ``(...)`` how many different samples would average as steadily.
    """

    scalars: NDArray[np.int64]
    counts: Mapping[str, NDArray[np.int64]]
    categories: Mapping[str, NDArray[np.int64]]
    mean: NDArray[np.float64]
    size: NDArray[np.int64]
    effective: NDArray[np.float64]


def deployment_side(profile: Profile) -> Side:
    """All samples of a profile."""
    return Side(
        scalars=profile.scalars.sum(axis=0),
        counts={name: blocks.sum(axis=0) for name, blocks in profile.counts.items()},
        categories={name: blocks.sum(axis=0) for name, blocks in profile.categories.items()},
        mean=profile.joint.mean,
        size=np.array(profile.samples),
        effective=np.array(profile.effective),
    )


def calibration_side(table: FeatureTable, profile: Profile, effective: float) -> Side:
    """A calibration set in the bins of a profile, whose features it has.

    Args:
        table: at least one sample.
        profile: of the deployment sample.
        effective: effective number of samples of `table`.
    """
    values = table.columns(profile.names)
    nothing = np.zeros(len(table), np.intp)
    rows = profile.joint.standardized(table)
    return Side(
        scalars=bin_counts(values, profile.edges, nothing, 1)[0],
        counts={name: table.counts[name].sum(axis=0) for name in profile.counts},
        categories={name: table.categories[name].sum(axis=0) for name in profile.categories},
        mean=profile.joint.features(rows).mean(axis=0),
        size=np.array(len(table)),
        effective=np.array(effective),
    )


def split_sides(profile: Profile, first: NDArray[np.bool_]) -> tuple[Side, Side]:
    """Profiles split in two, by blocks.

    Args:
        profile: of the deployment sample.
        first: ``(S, G)`` the blocks of the first part, for every split.
    """
    return _part(profile, first), _part(profile, ~first)


def centres_for(profile: Profile, table: FeatureTable | None = None) -> NDArray[np.float64]:
    """What the values of every bin are taken to be, ``(F, BINS)``: ascending and finite.

    Those beyond all deployment samples are taken for their mean in the calibration set.
    """
    found = profile.centres.copy()
    if table is not None:
        own = bin_centres(table.columns(profile.names), profile.edges)
        last = np.isfinite(profile.edges).sum(axis=1)  # the bin above all of the sample
        found[:, 0] = own[:, 0]
        features = np.arange(len(found))
        found[features, last] = own[features, last]
    return _filled(found)


def _part(profile: Profile, chosen: NDArray[np.bool_]) -> Side:
    some = chosen.astype(np.int64)
    size = some @ profile.block_sizes
    sums = chosen @ profile.joint.sums.astype(np.float64)
    flat = profile.scalars.reshape(len(profile.scalars), -1)
    return Side(
        scalars=_combine(chosen, flat).reshape(len(chosen), -1, BINS),
        counts={name: some @ blocks for name, blocks in profile.counts.items()},
        categories={name: some @ blocks for name, blocks in profile.categories.items()},
        mean=sums / np.maximum(size, 1)[:, None],
        size=size,
        effective=np.asarray(size * (profile.effective / profile.samples), np.float64),
    )


def _combine(chosen: NDArray[np.bool_], blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of blocks. Products of integers are slow, and sums this small are exact in float64."""
    return (chosen.astype(np.float64) @ blocks.astype(np.float64)).astype(np.int64)


def _filled(centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bins without a value take that of the bin before, or of the first that has one."""
    known = np.isfinite(centres)
    places = np.where(known, np.arange(centres.shape[1], dtype=np.intp), -1)
    before = np.maximum.accumulate(places, axis=1)
    first = known.argmax(axis=1)
    rows = np.arange(len(centres))[:, None]
    return centres[rows, np.where(before < 0, first[:, None], before)]
