"""The interval of the difference of two shares that were measured on the same samples."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

_STEPS = 60
"""Bisections: they halve an interval of 2 to less than the spacing of float64."""


def tango_interval(
    first_only: int, second_only: int, count: int, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Score interval of the share of the first less that of the second.

    All differences d that the score test does not reject: with q the most likely share of
    "second only" given d, ``(b - c - n d)^2 <= z^2 n (2 q + d (1 - d))`` (Tango, Statistics in
    Medicine 17:891, 1998). Unlike a bootstrap, it has a width even where no sample is discordant.

    Args:
        first_only: samples b that only the first has.
        second_only: samples c that only the second has.
        count: of all samples n.
        confidence: mass of the interval, 0-1.

    Returns:
        Lower and upper end, -1 to 1.

    Raises:
        ValueError: without samples, or when more are discordant than there are.
    """
    if count < 1 or first_only + second_only > count:
        raise ValueError(f"{first_only} and {second_only} of {count} samples")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    middle = (first_only - second_only) / count

    def end(outer: float) -> float:
        inner = middle
        if _accepted(outer, first_only, second_only, count, z):
            return outer
        for _ in range(_STEPS):
            between = (inner + outer) / 2
            if _accepted(between, first_only, second_only, count, z):
                inner = between
            else:
                outer = between
        return inner

    return end(-1.0), end(1.0)


def _accepted(d: float, b: int, c: int, n: int, z: float) -> bool:
    linear = -b - c + (2 * n - b + c) * d
    constant = -c * d * (1 - d)
    q = (sqrt(max(linear * linear - 8 * n * constant, 0.0)) - linear) / (4 * n)
    return (b - c - n * d) ** 2 <= z * z * n * max(2 * q + d * (1 - d), 0.0)
