"""How many samples a set really has, and how many it would take to tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil

from quantflow.artifacts.record import Verdict

RESOLUTION = 0.3
"""The gate can tell when chance keeps the Kolmogorov-Smirnov distance below this."""

_KS_95 = 1.3581
"""95% point of Kolmogorov's distribution: chance stays below it times ``sqrt(1/m + 1/n)``."""

_REPEATS = {"warn": 0.9, "fail": 0.5}
"""Verdict where the share of effective samples falls below this much of deployment's own."""


def effective_size(digests: Sequence[str]) -> float:
    """Number of different samples that would average as steadily: ``N^2 / sum c^2``.

    With ``c`` how often each content occurs (Kish 1965): N when all differ, 1 when all are equal,
    0 of none.
    """
    counts = Counter(digests).values()
    return len(digests) ** 2 / sum(count**2 for count in counts) if counts else 0.0


def repeat_verdict(calibration: Sequence[str], usual: float) -> Verdict:
    """Whether the calibration set repeats itself more than deployment does.

    Args:
        calibration: content digests.
        usual: share of effective samples in deployment, 0-1.
    """
    share = effective_size(calibration) / len(calibration)
    if share < _REPEATS["fail"] * usual:
        return "fail"
    return "warn" if share < _REPEATS["warn"] * usual else "pass"


def needed_sizes(calibration: float, deployment: float) -> tuple[int, int]:
    """Numbers of different samples from which the gate can tell, 0 for a set that is large enough.

    Where more deployment samples alone can do, they are asked for; else more of both, or of the
    calibration samples.

    Args:
        calibration, deployment: effective sizes.
    """
    total = (RESOLUTION / _KS_95) ** 2  # what 1/m + 1/n may come to
    if calibration and deployment and 1 / calibration + 1 / deployment <= total:
        return 0, 0
    # Half of the total each would do; beyond that, one can make up for the other.
    if calibration * total >= 2:
        return 0, ceil(1 / (total - 1 / calibration))
    if deployment * total >= 2:
        return ceil(1 / (total - 1 / deployment)), 0
    both = ceil(2 / total)
    return both, both
