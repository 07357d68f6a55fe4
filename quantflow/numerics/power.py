"""How many samples it takes to see a drop, and which drop so many samples would have shown.

"Seen" means that a two-sided test at 5% reports the drop in 4 of 5 cases where it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf, sqrt
from statistics import NormalDist
from typing import Final

_LEVEL: Final = NormalDist().inv_cdf(0.975)
_POWER: Final = NormalDist().inv_cdf(0.8)
_STEPS = 60


def samples_for_share(drop: float, discordant: float) -> float:
    """Samples that McNemar's test needs to see that a share falls.

    ``(z_a sqrt(s) + z_b sqrt(s - d^2))^2 / d^2`` for a drop d and a share s of discordant samples
    (Miettinen, Biometrics 24:339, 1968; Connor, Biometrics 43:207, 1987). On so many, the exact
    test sees it in 75% to 85% of cases.

    Args:
        drop: of the share, more than 0, 1 at most.
        discordant: share of samples that only one model has right, 0-1, such as was observed. A
            drop takes as many itself, so that less than it counts as it.

    Returns:
        A whole number, 1 or more; infinite for a drop of 0.
    """
    return _whole(_of_share(drop, discordant)) if drop > 0 else inf


def share_seen(count: int, discordant: float) -> float:
    """The smallest drop of a share that McNemar's test sees on `count` samples.

    Args:
        count: number of samples.
        discordant: see `samples_for_share`.

    Returns:
        More than 0, 1 at most; infinite where so few samples show none.
    """
    return _smallest(lambda drop: _of_share(drop, discordant), count)


def samples_for_mean(drop: float, spread: float) -> float:
    """Samples that it takes to see that a mean falls: ``((z_a + z_b) spread / drop)^2``.

    From the normal approximation of the mean of paired differences (Cohen, Statistical Power
    Analysis for the Behavioral Sciences, 1988, chapter 2).

    Args:
        drop: of the mean, 0 or more.
        spread: standard deviation of one sample's difference between the models, or of any
            statistic's difference times the square root of the number of samples.

    Returns:
        A whole number, 1 or more; infinite for a drop of 0, NaN for a spread of NaN.
    """
    if not drop > 0 or spread != spread:
        return inf if spread == spread else spread
    return _whole(((_LEVEL + _POWER) * spread / drop) ** 2)


def mean_seen(count: int, spread: float) -> float:
    """The smallest drop of a mean that is seen on `count` samples.

    Args:
        count: number of samples, 1 or more.
        spread: see `samples_for_mean`.
    """
    return (_LEVEL + _POWER) * spread / sqrt(count)


def _of_share(drop: float, discordant: float) -> float:
    share = max(discordant, drop)
    return (_LEVEL * sqrt(share) + _POWER * sqrt(max(share - drop * drop, 0.0))) ** 2 / drop**2


def _whole(samples: float) -> float:
    return max(float(ceil(samples)), 1.0) if samples < inf else inf


def _smallest(needed: Callable[[float], float], count: int) -> float:
    """Bisection of what falls as the drop grows."""
    low, high = 0.0, 1.0
    if needed(high) > count:
        return inf
    for _ in range(_STEPS):
        between = (low + high) / 2
        if between > 0 and needed(between) <= count:
            high = between
        else:
            low = between
    return high
