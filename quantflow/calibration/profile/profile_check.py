"""What must hold of every profile: what a file says is believed only where it does."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

import numpy as np

from quantflow.calibration.profile.arrays import MOST
from quantflow.calibration.profile.kernel import (
    FREQUENCIES,
    LEAST_WIDTH,
    TAIL_FRACTION,
    KernelSketch,
)
from quantflow.calibration.profile.profile import Profile, TensorProfile, block_count
from quantflow.calibration.profile.refusal import refuse

LONGEST = 1000
"""Characters of a name at most."""

_FURTHEST = 5.0
"""Standardized features lie within so many standard deviations."""

_NEAR = 1e-6
_FLOAT32 = 1e-3


def check_profile(profile: Profile) -> None:
    """Raise ValueError, with a sentence's worth of why, for a profile that no samples can have.

    Types and shapes of its arrays are taken for granted.
    """
    for check in (_names, _sizes, _histograms, _moments):
        check(profile)
    for kernel in (profile.inputs, profile.joint):
        _kernel(kernel, profile.samples)
    for tensor in profile.tensors.values():
        _tensor(tensor)


def _names(profile: Profile) -> None:
    names = [*profile.names, *profile.counts, *profile.categories]
    refuse(not profile.names, "it has no features")
    refuse(len(set(names)) < len(names), "two features have one name")
    told = [*names, *profile.tensors, profile.model, profile.source]
    refuse(max(map(len, told)) > LONGEST, "a name is too long")
    refuse(profile.tensors and not profile.model, "its tensors are of no model")


def _sizes(profile: Profile) -> None:
    sizes, samples, distinct = profile.block_sizes, profile.samples, profile.distinct
    refuse(not 1 <= samples <= MOST, "its number of samples is impossible")
    refuse(not 1 <= distinct <= samples, "its number of different samples is impossible")
    # Different samples are dealt out to the blocks in turn.
    refuse(len(sizes) != block_count(distinct), "its number of blocks is impossible")
    refuse((sizes > samples).any() or sizes.sum() != samples, "blocks do not add up to its samples")
    refuse((profile.inputs.sizes != sizes).any(), "its sketches are of different samples")
    dealt = distinct // len(sizes) + (np.arange(len(sizes)) < distinct % len(sizes))
    refuse((sizes < dealt).any() or (sizes[dealt == 0] > 0).any(), "its blocks are impossible")
    # Most even and most uneven numbers of repeats.
    most = samples**2 / ((samples - distinct + 1) ** 2 + distinct - 1)
    within = most * (1 - _NEAR) <= profile.effective <= distinct * (1 + _NEAR)
    refuse(not within, "its effective number of samples is impossible")


def _histograms(profile: Profile) -> None:
    sizes, scalars = profile.block_sizes, profile.scalars
    refuse((scalars > sizes[:, None, None]).any(), "a histogram holds more than all samples")
    wrong = (scalars.sum(axis=2) != sizes[:, None]).any()
    refuse(wrong, "its histograms do not add up to its samples")
    for found in profile.categories.values():
        wrong = (found > sizes[:, None]).any() or (found.sum(axis=1) != sizes).any()
        refuse(wrong, "its categories do not add up to its samples")
    for found in profile.counts.values():
        refuse((found > MOST).any() or found.shape[1] > 2**16, "a count is impossible")
        refuse(((found.sum(axis=1) > 0) != (sizes > 0)).any(), "its counts are of other samples")
    edges = profile.edges
    refuse(np.isnan(edges).any() or (edges[:, 1:] < edges[:, :-1]).any(), "bins do not ascend")
    refuse(not np.isfinite(edges[:, :2]).all(), "a feature has no bins")
    finite = np.isfinite(edges)
    refuse(((edges[:, 1:] == edges[:, :-1]) & finite[:, 1:]).any(), "two of its bins are one")
    inner = np.concatenate([np.zeros((len(edges), 1), np.bool_), finite], axis=1)
    inner[np.arange(len(edges)), finite.sum(axis=1)] = False  # the bin above all of the sample
    occupied = scalars.sum(axis=0) > 0
    refuse((occupied & ~inner).any(), "samples lie outside of all bins")
    start = np.concatenate([np.full((len(edges), 1), -np.inf), edges], axis=1)
    end = np.concatenate([edges, np.full((len(edges), 1), np.inf)], axis=1)
    slack = _NEAR * np.maximum(np.abs(profile.centres), np.finfo(np.float64).tiny)
    inside = (profile.centres >= start - slack) & (profile.centres <= end + slack)
    refuse((occupied & ~inside).any(), "the centre of a bin lies outside of it")
    refuse((~occupied & ~np.isnan(profile.centres)).any(), "an empty bin has a centre")


def _moments(profile: Profile) -> None:
    """Means and spreads of the sketches follow from the histograms, up to the width of bins."""
    found = profile.scalars.sum(axis=0)
    middle = np.nan_to_num(profile.centres)
    mean = (found * middle).sum(axis=1) / profile.samples
    far = middle - mean[:, None]
    between = np.sqrt((found * far**2).sum(axis=1) / profile.samples)
    widest = np.where(found > 0, np.abs(middle), 0).max(axis=1) + np.finfo(np.float64).tiny
    refuse(not np.isfinite(between).all(), "its features have no spread")
    last = np.where(np.isfinite(profile.edges), profile.edges, -np.inf).max(axis=1)
    for kernel in (profile.inputs, profile.joint):
        some = slice(len(kernel.names))
        slack = _NEAR * widest[some]
        refuse((np.abs(kernel.centre - mean[some]) > slack).any(), "its means are impossible")
        most = last[some] - profile.edges[some, 0] + slack
        wrong = (kernel.spread < between[some] * (1 - _NEAR) - slack) | (kernel.spread > most)
        refuse(wrong.any(), "its spreads are impossible")


def _kernel(kernel: KernelSketch, samples: int) -> None:
    largest = _FURTHEST * len(kernel.names) ** 0.5
    width = LEAST_WIDTH <= kernel.width <= 2 * largest * (1 + _NEAR)
    refuse(not width, "the width of a kernel is impossible")
    refuse(not 0 <= kernel.edge <= largest * (1 + _NEAR), "the edge of a tail is impossible")
    most = TAIL_FRACTION * samples + 1
    refuse(not 0 <= kernel.tail_size <= most, "the size of a tail is impossible")
    density = isfinite(kernel.least_density) and abs(kernel.least_density) <= 1 + _FLOAT32
    refuse(not density, "a density is impossible")
    # Random features are vectors of length 1.
    for sums, size in ((kernel.sums, kernel.sizes), (kernel.tail[None], kernel.tail_size)):
        sums, size = sums.astype(np.float64), np.atleast_1d(size) * (1 + _FLOAT32)
        length = np.sqrt((sums**2).sum(axis=1))
        refuse((length > size).any(), "sums of a kernel's features are impossible")
        refuse(((length == 0) != (size == 0)).any(), "sums of a kernel's features are missing")
        refuse((np.abs(sums) > size[:, None] / FREQUENCIES**0.5).any(), "a sum is impossible")
    # Half of the pairs lie within the kernel's width, where it is exp(-1/2) or more.
    refuse((kernel.mean**2).sum() < 0.1, "means of a kernel's features are impossible")


def _tensor(tensor: TensorProfile) -> None:
    low, high, hist = tensor.sample_low, tensor.sample_high, tensor.histogram
    refuse((hist.counts > MOST).any(), "a count of activations is impossible")
    refuse(not 0 <= hist.inf <= hist.nonfinite, "a number of infinite activations is impossible")
    refuse(np.isnan(low).any() or np.isnan(high).any(), "an extreme of a sample is no number")
    nothing = (low == np.inf) & (high == -np.inf)
    wrong = ~nothing & ~((low <= high) & np.isfinite(low) & np.isfinite(high))
    refuse(wrong.any(), "the lowest activation of a sample is above its highest")
    refuse((low[1:] < low[:-1]).any(), "its samples are not in order")
    for told, found in zip(_extremes(tensor), (hist.low, hist.high), strict=True):
        refuse(told != found, "extremes of samples are not those of all activations")
    refuse(int((~nothing).sum()) > hist.count, "there are more samples than activations")


def _extremes(tensor: TensorProfile) -> Iterator[float]:
    yield float(tensor.sample_low.min(initial=np.inf))
    yield float(tensor.sample_high.max(initial=-np.inf))
