"""Fidelity: how close a model's outputs are to those of fp32, over all samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.comparison import Fidelity
from quantflow.numerics.bootstrap import bootstrap_interval

WORST = 5
"""Most samples that are named as the worst."""


def fidelity(
    cosines: NDArray[np.float64],
    max_abs_errors: NDArray[np.float64],
    ids: Sequence[str],
    *,
    seed: int,
) -> Fidelity:
    """What the samples' distances to fp32 say about the model.

    Args:
        cosines: ``(N,)``, cosine of each sample's outputs to those of fp32; NaN where an output is
            not finite.
        max_abs_errors: ``(N,)``, largest difference of an output element of each sample.
        ids: ids of the N samples.
        seed: of the bootstrap.

    Returns:
        Mean, minimum and 95% bootstrap interval over samples. A NaN cosine makes all of them NaN,
        so that no sample is left out, and its sample comes first among the worst.

    Raises:
        ValueError: without samples, or when the lengths differ.
    """
    if not len(ids) or cosines.shape != (len(ids),) or max_abs_errors.shape != (len(ids),):
        raise ValueError(f"{len(ids)} ids, {cosines.shape} cosines, {max_abs_errors.shape} errors")
    low, high = _interval(cosines, seed)
    # NaN sorts last, but is worse than any number.
    order = np.argsort(np.where(np.isnan(cosines), -np.inf, cosines), kind="stable")
    return Fidelity(
        cosine_mean=float(cosines.mean()),
        cosine_min=float(cosines.min()),
        cosine_low=low,
        cosine_high=high,
        max_abs_error=float(max_abs_errors.max()),
        worst_samples=tuple(ids[int(index)] for index in order[:WORST]),
    )


def _interval(cosines: NDArray[np.float64], seed: int) -> tuple[float, float]:
    if np.isnan(cosines).any():
        return float("nan"), float("nan")
    return bootstrap_interval(lambda draw: float(cosines[draw].mean()), len(cosines), seed=seed)
