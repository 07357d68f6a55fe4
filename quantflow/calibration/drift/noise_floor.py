"""The noise floor: how far apart two samples of the same deployment lie by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.drift.distances import chance_scales, distances, least_distances
from quantflow.calibration.drift.sides import centres_for, split_sides
from quantflow.calibration.profile.profile import Profile

SPLITS = 400
"""Splits of the deployment sample."""

QUANTILE = 0.95
"""Share of the splits that stay below the floor."""

FALSE_ALARMS = 0.005
"""Share of the splits in which some feature may exceed the limit."""

_TAIL = 0.001
"""Probability at which the limit allows for floors that are themselves estimates."""

_AT_ONCE = 25
"""Splits that are compared in one go, which bounds memory."""


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """What is plausible when both samples come from the same source.

    Attributes:
        floors: ``(K,)`` for each of `measures`: the distance that 95% of the splits stay below.
        largest: ``(SPLITS,)`` the largest distance / floor of all measures in every split,
            ascending, raised for the uncertainty of the floors.
    """

    floors: NDArray[np.float64]
    largest: NDArray[np.float64]

    @property
    def limit(self) -> float:
        """The effect that no feature exceeds in 199 of 200 splits, at least 1.

        Taken over all features at once, so that many of them do not add up to a false alarm.
        """
        return max(float(np.quantile(self.largest, 1 - FALSE_ALARMS)), 1.0)

    def p_value(self, effect: float) -> float:
        """Probability that chance makes any feature differ so much.

        The share of splits whose largest effect is no smaller, the sample itself counted as one
        (Westfall and Young 1993). It holds for all features together, however they depend on each
        other, so that the share of false discoveries is bounded, too.
        """
        above = len(self.largest) - int(np.searchsorted(self.largest, effect, side="left"))
        return (above + 1) / (len(self.largest) + 1)


def noise_floor(profile: Profile, effective: float, *, seed: int) -> NoiseFloor:
    """Split the deployment sample in halves, many times, and look how far these lie apart.

    As most distances fall with ``sqrt(1/m + 1/n)`` when nothing has changed, what is seen is scaled
    to the sizes of the two sets. The floor is no lower than `least_distances` for a share of
    ``2 (1/m + 1/n)``: what so few are like may not have shown up in the deployment sample, and then
    no split of it can tell.

    Args:
        profile: of the deployment sample, at least two different samples.
        effective: effective number of samples of the set that is judged.
        seed: of the splits.
    """
    unevenness = 1 / effective + 1 / profile.effective
    centres, firsts = centres_for(profile), _halves(profile, seed)
    parts: list[NDArray[np.float64]] = []
    for start in range(0, SPLITS, _AT_ONCE):
        a, b = split_sides(profile, firsts[start : start + _AT_ONCE])
        ratio = np.sqrt(unevenness / (1 / a.effective + 1 / b.effective))
        parts.append(distances(a, b, centres) * chance_scales(profile, ratio))
    seen = np.concatenate(parts)
    least = least_distances(profile, min(2 * unevenness, 1.0))
    floors = np.maximum(np.quantile(seen, QUANTILE, axis=0), least)
    doubt = _student_factor(int(np.count_nonzero(profile.block_sizes)))
    return NoiseFloor(floors, np.sort((seen / floors).max(axis=1)) * doubt)


def _student_factor(blocks: int) -> float:
    """How much further out a limit lies when the spread is an estimate from so many blocks.

    The ratio of the quantiles of Student's (1908) and of the normal distribution.
    """
    from scipy import special

    return float(special.stdtrit(blocks - 1, _TAIL / 2) / special.ndtri(_TAIL / 2))


def _halves(profile: Profile, seed: int) -> NDArray[np.bool_]:
    """``(SPLITS, G)`` half of the blocks that hold samples, by chance, for every split."""
    filled = np.flatnonzero(profile.block_sizes)
    rng = np.random.default_rng([seed, 5])
    order = rng.permuted(np.tile(filled, (SPLITS, 1)), axis=1)[:, : len(filled) // 2]
    first = np.zeros((SPLITS, len(profile.block_sizes)), np.bool_)
    np.put_along_axis(first, order, True, axis=1)
    return first
