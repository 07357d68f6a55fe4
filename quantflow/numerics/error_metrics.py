"""Distances between a reference and what quantization made of it."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray


def cosine(reference: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """Cosine similarity of each sample.

    Args:
        reference, other: ``(N, ...)`` float32; everything after the first axis is one vector.

    Returns:
        ``(N,)`` float64. Two zero vectors give 1, a zero and a non-zero one 0, and one with a value
        that is not finite NaN.
    """
    a = reference.reshape(len(reference), prod(reference.shape[1:])).astype(np.float64)
    b = other.reshape(len(other), prod(other.shape[1:])).astype(np.float64)
    both_zero = ~a.any(axis=1) & ~b.any(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        value = np.where(norms > 0, (a * b).sum(axis=1) / norms, np.where(norms == 0, 0.0, np.nan))
    return np.where(both_zero, 1.0, value)


def sqnr_db(reference: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Signal to quantization noise ratio, ``10 log10(sum x^2 / sum (x - y)^2)``, in dB.

    Infinite when there is no noise, NaN when there is neither signal nor noise.
    """
    a = reference.astype(np.float64)
    signal = float(np.square(a).sum())
    noise = float(np.square(a - other).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(10 * np.log10(np.float64(signal) / np.float64(noise)))
