"""McNemar's test: do two classifiers, judged on the same samples, err equally often?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def discordant_counts(model: NDArray[Any], baseline: NDArray[Any]) -> tuple[int, int]:
    """Samples that only one of two models gets right.

    Args:
        model, baseline: ``(N,)``, true or not 0 where the model is right.

    Returns:
        How many only the baseline gets right, which the model lost; and how many only the model
        does, which it gained.

    Raises:
        ValueError: when the lengths differ.
    """
    if model.shape != baseline.shape:
        raise ValueError(f"{model.shape} and {baseline.shape} are not the same samples")
    of_model, of_baseline = model.astype(bool), baseline.astype(bool)
    lost = np.count_nonzero(of_baseline & ~of_model)
    return int(lost), int(np.count_nonzero(of_model & ~of_baseline))


def mcnemar_p(lost: int, gained: int) -> float:
    """Exact two-sided p-value that discordant samples are as likely lost as gained.

    Given their number, those lost are Binomial(lost + gained, 1/2) where both models err equally
    often; the smaller tail counts twice (McNemar 1947; exact form in Fagerland, Lydersen and Laake,
    BMC Medical Research Methodology 13:91, 2013). Samples that both models get right, or both
    wrong, say nothing.

    Args:
        lost, gained: see `discordant_counts`; 0 or more.

    Returns:
        0-1; 1 without a discordant sample.
    """
    count = lost + gained
    term, tail = 1, 0
    for k in range(min(lost, gained) + 1):  # in whole numbers, hence exact
        tail += term
        term = term * (count - k) // (k + 1)
    return min(1.0, 2 * tail / 2**count)
