"""Exact tests of how many held-out samples lie beyond all samples of calibration.

If both are draws of one distribution, any order of all samples is as likely as any other, whatever
the distribution. So the k samples that reach furthest on one side are all held-out ones with
probability ``m (m-1) ... (m-k+1) / ((n+m) (n+m-1) ... (n+m-k+1))``, n calibration and m held-out
samples given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def exceedance_p_value(exceeding: int, calibration: int, heldout: int) -> float:
    """Probability that the `exceeding` most extreme of all samples are held-out ones.

    Args:
        exceeding: held-out samples beyond the calibration extreme of one side.
        calibration, heldout: number of samples of each kind.
    """
    i = np.arange(exceeding)
    return float(np.exp(np.log((heldout - i) / (calibration + heldout - i)).sum()))


def two_sided_p_value(
    below: NDArray[np.bool_], above: NDArray[np.bool_], calibration: int
) -> float:
    """Probability of so many held-out samples beyond either extreme, an upper bound; at most 1.

    The smaller of two, doubled for the choice. One is that of the side where more lie beyond, for
    two sides. The other is of both sides together: k samples lie beyond some extreme if, for one of
    the ``k + 1`` ways to share them out, those that reach furthest on either side are all held-out
    ones, and any k given samples are so with the probability of `exceedance_p_value`. It has more
    power where both sides are left.

    Args:
        below, above: ``(m,)`` which held-out samples lie beyond the calibration extremes.
        calibration: number of calibration samples.
    """
    heldout, either = len(below), int((below | above).sum())
    side = max(int(below.sum()), int(above.sum()))
    one = 2 * exceedance_p_value(side, calibration, heldout)
    both = (either + 1) * exceedance_p_value(either, calibration, heldout)
    return min(1.0, 2 * min(one, both))
