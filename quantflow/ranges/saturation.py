"""Saturation: how much of deployment the ranges in force clip, and how much is about to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from quantflow.artifacts.ranges_record import ClippingRow, TensorRange
from quantflow.ranges.bounds import Bounds
from quantflow.ranges.clipping import Subject, clipping_rows
from quantflow.ranges.collect import TensorStatistics
from quantflow.ranges.grid import Histogram


def saturation_rows(
    ranges: Iterable[TensorRange],
    groups: Mapping[str, str],
    calibration: Mapping[str, Histogram],
    deployment: Mapping[str, TensorStatistics],
    ids: Sequence[str] = (),
) -> list[ClippingRow]:
    """What the range in force does to deployment, tensor by tensor.

    Rows are those of the clipping report, with the range in force as the only candidate: shares
    clipped on each side, share near a bound, energy lost.

    Args:
        ranges: of every tensor.
        groups: name of every tensor's group.
        calibration: histograms of the calibration set.
        deployment: statistics of samples of deployment, or those of a profile.
        ids: of these samples; none where they cannot be told apart.
    """
    return [
        row
        for chosen in ranges
        for row in clipping_rows(
            deployment[chosen.tensor].histogram,
            {chosen.estimator: Bounds(chosen.low, chosen.high)},
            chosen.estimator,
            Subject(
                tensor=chosen.tensor,
                group=groups[chosen.tensor],
                split="heldout",
                symmetric=chosen.symmetric,
                ids=ids,
                sample_low=deployment[chosen.tensor].sample_low,
                sample_high=deployment[chosen.tensor].sample_high,
                calibrated=calibration[chosen.tensor],
            ),
        )
    ]
