"""How far one sample's outputs are from the float model's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.error_metrics import cosine, in_parts

Output = NDArray[np.float32]


def output_cosine(reference: Output, other: Output) -> float:
    """Cosine of all elements as one vector."""
    return float(cosine(reference.reshape(1, -1), other.reshape(1, -1))[0])


def relative_error(reference: Output, other: Output) -> float:
    """``||y - y'|| / ||y||``; 0 for two zero vectors, infinite for an error on a zero reference."""
    return float(np.sqrt(noise_to_signal(reference, other)))


def noise_to_signal(reference: Output, other: Output) -> float:
    """``sum (y - y')^2 / sum y^2``, a ratio of powers; 0 and infinite as `relative_error`."""
    noise, signal = 0.0, 0.0
    for a, b in in_parts(reference.reshape(1, -1), other.reshape(1, -1)):
        with np.errstate(invalid="ignore"):
            noise += float(np.square(a - b).sum())
        signal += float(np.square(a).sum())
    if signal == 0:
        return 0.0 if noise == 0 else float("inf")
    return noise / signal


def softmax_kl(reference: Output, other: Output) -> float:
    """Mean over positions of ``KL(softmax(y) || softmax(y'))`` along the last axis, in nats.

    It is ``E[y - y'] - lse(y) + lse(y')``, with the mean over the classes by ``softmax(y)`` and the
    logarithm of the sum of exponentials ``lse``, which takes two of these of a class.
    """
    rows = [np.atleast_1d(x).reshape(-1, np.atleast_1d(x).shape[-1]) for x in (reference, other)]
    found = np.empty(len(rows[0]))
    for start in range(0, len(found), _POSITIONS):
        part = slice(start, start + _POSITIONS)
        with np.errstate(invalid="ignore"):  # infinite logits give NaN
            y, z = (_from_greatest(x[part]) for x in rows)
            apart = y - z
            p, q = np.exp(y, out=y), np.exp(z, out=z)
            total = p.sum(axis=-1)
            mean = np.einsum("ij,ij->i", p, apart) / total
            found[part] = mean - np.log(total) + np.log(q.sum(axis=-1))
    return float(found.mean())


_POSITIONS = 8
"""Positions taken at once: few, that they stay near the processor."""


def _from_greatest(logits: Output) -> NDArray[np.float64]:
    """The logits of every position less their greatest."""
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    return x
