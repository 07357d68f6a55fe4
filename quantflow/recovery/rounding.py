"""Rounding a weight so that the errors of its rows make up for each other in the layer's output.

Rows are rounded one after the other, those that matter most first, and what rounding a row adds to
the output is taken from the rows not yet rounded, as far as the inputs allow: GPTQ (Frantar et al.
2023), which is optimal brain surgery (Hassibi and Stork 1993) row by row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.quantize import QMAX

Floats = NDArray[np.float32]

DAMPING = 0.01
"""What is added to the diagonal of the inputs' second moments, as a share of its mean: they come
from a sample."""

_BLOCK = 128
"""Rows that are rounded before their errors are taken from all that follow, in one product."""


def round_weight(weight: Floats, scales: Floats, moments: NDArray[np.float64]) -> NDArray[np.int8]:
    """Round a weight to int8 by the error of its output.

    Args:
        weight: ``(G, K, N)`` float32, finite: G parts that multiply different inputs.
        scales: units of the weight per step, float32, positive, broadcast to the weight and equal
            for all rows of a column.
        moments: ``(G, K, K)`` float64, ``X^T X`` of the inputs of every part.

    Returns:
        ``(G, K, N)`` int8, within ``[-127, 127]``.
    """
    groups, depth, width = weight.shape
    order = np.argsort(-np.diagonal(moments, axis1=1, axis2=2), axis=1, kind="stable")
    part = np.arange(groups, dtype=np.intp)[:, None]
    factor = _inverse_factor(moments[part[:, None], order[:, :, None], order[:, None, :]])
    left = (weight / scales)[part, order]  # in steps
    steps = np.empty_like(left)
    for start in range(0, depth, _BLOCK):
        end = min(start + _BLOCK, depth)
        errors = np.empty((groups, end - start, width), np.float32)
        for row in range(start, end):
            steps[:, row] = np.clip(np.rint(left[:, row]), -QMAX, QMAX)
            error = (left[:, row] - steps[:, row]) / factor[:, row, row, None]
            errors[:, row - start] = error
            left[:, row + 1 : end] -= factor[:, row, row + 1 : end, None] * error[:, None]
        left[:, end:] -= factor[:, start:end, end:].transpose(0, 2, 1) @ errors
    rounded = np.empty(weight.shape, np.int8)
    rounded[part, order] = steps
    return rounded


def _inverse_factor(moments: NDArray[np.float64]) -> Floats:
    """Upper triangular U, ``(G, K, K)`` float32, ``U^T U`` the inverse of the damped moments."""
    mean = np.diagonal(moments, axis1=1, axis2=2).mean(axis=1)
    damped = moments / np.where(mean > 0, mean, 1.0)[:, None, None]
    place = np.arange(moments.shape[1], dtype=np.intp)
    damped[:, place, place] += DAMPING
    inverse = np.linalg.inv(damped)
    inverse = (inverse + inverse.transpose(0, 2, 1)) / 2
    return np.linalg.cholesky(inverse).transpose(0, 2, 1).astype(np.float32)
