"""How far the channels of a tensor are brought together, by the error of its layers' outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.quantize import activation_params
from quantflow.ranges.judge import judge_of
from quantflow.ranges.views import Reader
from quantflow.recovery.scales import candidate_scales

Floats = NDArray[np.float32]

FACTORS = (1.0, 0.8, 0.6)
"""Shares of the widest range that are tried with every scale."""


@dataclass(frozen=True, slots=True)
class Smoothed:
    """The best scale of a tensor.

    Attributes:
        name: how it was found.
        scale: ``(K,)`` float32.
        before, after: relative squared error of the layers' outputs without and with it, under the
            best of the ranges tried.
    """

    name: str
    scale: Floats
    before: float
    after: float

    @property
    def gain(self) -> float:
        """By what fraction the error falls, 0-1."""
        return 1 - self.after / self.before if self.before > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Channels:
    """What is known of the channels of a tensor.

    Attributes:
        rows: ``(R, D)`` float32, finite: a sample of the rows that layers read. D is K, or for
            receptive fields K times the points of the window, channel by channel.
        low, high: ``(K,)`` float32 extremes of every channel.
    """

    rows: Floats
    low: Floats
    high: Floats


def smooth(
    channels: Channels,
    readers: Sequence[Reader],
    classes: NDArray[np.int64],
    *,
    symmetric: bool,
) -> Smoothed | None:
    """The scale with the least output error; None where there is nothing to judge by.

    Args:
        channels: of the tensor.
        readers: the layers that multiply its rows.
        classes: ``(K,)`` channels of one class share a scale.
        symmetric: whether activations have zero point 0.
    """
    if not len(channels.rows) or not readers:
        return None
    ones = np.ones(len(channels.low), np.float32)
    before = _error(channels, readers, ones, symmetric)
    if before is None:
        return None
    absmax = np.maximum(-channels.low, channels.high)
    best = Smoothed("none", ones, before, before)
    for name, scale in candidate_scales(absmax, _row_absmax(readers, len(ones)), classes):
        error = _error(channels, readers, scale, symmetric)
        if error is not None and error < best.after:
            best = Smoothed(name, scale, before, error)
    return best


def _error(
    channels: Channels, readers: Sequence[Reader], scale: Floats, symmetric: bool
) -> float | None:
    """Error with the channels divided by a scale, under the best of the ranges tried."""
    low = float((channels.low / scale).min(initial=0.0))
    high = float((channels.high / scale).max(initial=0.0))
    along = np.repeat(scale, channels.rows.shape[1] // len(scale))
    judge = judge_of(channels.rows / along, [_scaled(x, along) for x in readers])
    if not len(judge.rows):
        return None
    params = [activation_params(low * x, high * x, symmetric=symmetric) for x in FACTORS]
    found = judge.errors(params)
    # A narrower range has to earn its place: it may clip more of the data to come.
    return float(min(found[0], *(found[1:] / 0.8)))


def _scaled(each: Reader, along: Floats) -> Reader:
    groups, depth, _ = each.weight.shape
    return replace(each, weight=each.weight * along.reshape(groups, depth, 1))


def _row_absmax(readers: Sequence[Reader], channels: int) -> Floats:
    """``(K,)`` largest magnitude of every channel's weights."""
    by_row = [np.abs(x.weight).max(axis=2).reshape(channels, -1).max(axis=1) for x in readers]
    return np.maximum.reduce(by_row).astype(np.float32)
