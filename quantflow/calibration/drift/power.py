"""What a comparison of so few samples would not have seen."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from quantflow.artifacts.drift_record import Power
from quantflow.calibration.drift.distances import Measure
from quantflow.calibration.drift.noise_floor import NoiseFloor


def power_of(floor: NoiseFloor, keys: Sequence[Measure]) -> Power:
    """The smallest changes that the Kolmogorov-Smirnov distance of a usual feature would report.

    A share of samples that are unlike all others in a feature moves its distribution function by
    just that share; a normal distribution shifted by d standard deviations, by
    ``2 Phi(d / 2) - 1``.

    Args:
        floor: the noise floor.
        keys: what its floors are of.
    """
    floors = [value for value, key in zip(floor.floors, keys, strict=True) if key.test == "ks"]
    share = min(float(np.median(floors)) * floor.limit, 1.0)
    certain = min((1 + share) / 2, 1 - 1e-9)
    return Power(share=share, shift=2 * NormalDist().inv_cdf(certain))
