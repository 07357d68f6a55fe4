"""Candidates for the scale that a tensor's channels are divided by.

Two families. One moves difficulty from activations to weights by ``s = a^t / w^(1-t)``, a and w
the largest magnitudes of an activation's channel and of the weight's row that reads it
(SmoothQuant, Xiao et al. 2023). The other leaves channels alone but those above a bound, which it
brings down to it (Outlier Suppression+, Wei et al. 2023): where all weights share one scale, the
first widens the spread of their rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

STRENGTHS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Values of t."""

BOUNDS = (0.5, 0.75, 0.9, 0.95, 0.99)
"""Quantiles of the channels' magnitudes that are tried as bounds."""

MOST = 2.0**10
"""Farthest that a scale may be from the geometric mean of a tensor's scales, as a factor: fp16
holds what lies between layers."""


def candidate_scales(
    activation: Floats, weight: Floats, classes: NDArray[np.int64]
) -> Iterator[tuple[str, Floats]]:
    """Scales by name.

    Args:
        activation: ``(K,)`` largest magnitude of every channel.
        weight: ``(K,)`` largest magnitude of every channel's weights.
        classes: ``(K,)`` channels of one class share a scale.

    Yields:
        ``(K,)`` float32, positive; those of the first family have geometric mean 1 over the
        channels that hold anything.
    """
    a, w = _of_class(activation, classes), _of_class(weight, classes)
    live = (a > 0) & (w > 0) & np.isfinite(a) & np.isfinite(w)
    if not live.any():
        return
    for t in STRENGTHS:
        found = np.ones(len(a))
        found[live] = a[live] ** t / w[live] ** (1 - t)
        yield f"strength {t:g}", _finished(found, live)
    for q in BOUNDS:
        bound = float(np.quantile(a[live], q))
        found = np.ones(len(a))
        found[live] = np.maximum(a[live] / bound, 1.0)
        yield f"bound at {q:g}", _finished(found, live, mean=1.0)


def _of_class(magnitude: Floats, classes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The largest magnitude in a channel's class, for every channel."""
    largest = np.zeros(int(classes.max(initial=0)) + 1)
    np.maximum.at(largest, classes, magnitude.astype(np.float64))
    return largest[classes]


def _finished(
    scale: NDArray[np.float64], live: NDArray[np.bool_], mean: float | None = None
) -> Floats:
    centre = np.exp(np.log(scale[live]).mean()) if mean is None else mean
    scale[live] = np.clip(scale[live] / centre, 1 / MOST, MOST)
    return scale.astype(np.float32)
