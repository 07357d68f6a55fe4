"""The noise floor: how far apart two samples of the same deployment lie by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.drift.distances import distances, least_distances
from quantflow.calibration.features.table import FeatureTable

SPLITS = 400
"""Splits of the deployment sample."""

QUANTILE = 0.95
"""Share of the splits that stay below the floor."""


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """What is plausible when both samples come from the same source.

    Attributes:
        floors: ``(K,)`` for each of `measures`: the distance that 95% of the splits stay below.
        limit: the largest distance / floor over all splits and measures. Taken over all of them at
            once, so that many features do not add up to a false alarm.
    """

    floors: NDArray[np.float64]
    limit: float


def noise_floor(
    deployment: FeatureTable, size: float, deployment_size: float, *, seed: int
) -> NoiseFloor:
    """Split the deployment sample in two, many times, and look how far the parts lie apart.

    The parts have the proportion of the two sets, and are smaller than these: as all distances here
    fall with ``sqrt(1/m + 1/n)`` when nothing has changed, what is seen is scaled to their sizes.
    The floor is no lower than `least_distances` for a share of ``2 (1/m + 1/n)``: what so few are
    like may not have shown up in the deployment sample, and then no split of it can tell.

    Args:
        deployment: N samples, N at least 2, in an order that says nothing.
        size: effective number of samples of the set that is judged.
        deployment_size: effective number of samples of `deployment`.
        seed: of the splits.
    """
    count = len(deployment)
    part = min(max(round(count * size / (size + deployment_size)), 1), count - 1)
    unevenness = 1 / size + 1 / deployment_size
    scale = np.sqrt(unevenness / (1 / part + 1 / (count - part)))
    rng = np.random.default_rng([seed, 5])
    seen = np.array(
        [
            distances(deployment.take(order[:part]), deployment.take(order[part:]))
            for order in (rng.permutation(count) for _ in range(SPLITS))
        ]
    )
    least = least_distances(deployment, min(2 * unevenness, 1.0))
    floors = np.maximum(np.quantile(seen * scale, QUANTILE, axis=0), least)
    return NoiseFloor(floors, max(float((seen * scale / floors).max()), 1.0))
