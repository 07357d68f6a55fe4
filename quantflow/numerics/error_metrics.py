"""Distances between a reference and what quantization made of it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

_ELEMENTS = 2**20
"""Elements of a vector that are held in float64 at once: the logits of a text are 25 million."""


def cosine(reference: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """Cosine similarity of each sample.

    Args:
        reference, other: ``(N, ...)`` float32; everything after the first axis is one vector.

    Returns:
        ``(N,)`` float64. Two zero vectors give 1, a zero and a non-zero one 0, and one with a value
        that is not finite NaN.
    """
    dot, of_reference, of_other = np.zeros((3, len(reference)))
    with np.errstate(invalid="ignore", divide="ignore"):
        for a, b in in_parts(reference, other):
            dot += (a * b).sum(axis=1)
            of_reference += np.square(a).sum(axis=1)
            of_other += np.square(b).sum(axis=1)
        norms = np.sqrt(of_reference) * np.sqrt(of_other)
        value = np.where(norms > 0, dot / norms, np.where(norms == 0, 0.0, np.nan))
    return np.where((of_reference == 0) & (of_other == 0), 1.0, value)


def max_abs_error(reference: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Largest difference of an element; 0 without elements, NaN where a value is not finite."""
    largest = 0.0
    with np.errstate(invalid="ignore"):
        for a, b in in_parts(reference[None], other[None]):
            largest = float(np.maximum(largest, np.abs(b - a).max(initial=0)))
    return largest


def sqnr_db(reference: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Signal to quantization noise ratio, ``10 log10(sum x^2 / sum (x - y)^2)``, in dB.

    Infinite when there is no noise, NaN when there is neither signal nor noise.
    """
    a = reference.astype(np.float64)
    signal = float(np.square(a).sum())
    noise = float(np.square(a - other).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(10 * np.log10(np.float64(signal) / np.float64(noise)))


def in_parts(
    a: NDArray[np.float32], b: NDArray[np.float32]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Two equally shaped arrays as ``(N, width)`` float64, some columns at a time."""
    width = prod(a.shape[1:])
    x, y = a.reshape(len(a), width), b.reshape(len(b), width)
    step = max(1, _ELEMENTS // max(1, len(a)))
    for start in range(0, width, step):
        part = slice(start, start + step)
        yield x[:, part].astype(np.float64), y[:, part].astype(np.float64)
