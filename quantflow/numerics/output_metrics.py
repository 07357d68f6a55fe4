"""How far a sample's outputs are from the reference: the metrics that groups are ranked by.

A metric is a function and the direction it points in; `damage` turns either direction into a number
that is 0 for a perfect output and larger for a worse one (C36).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.error_metrics import cosine

Output = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class OutputMetric:
    """A metric of one sample.

    Attributes:
        value: of reference and other, equal shapes without batch axis.
        perfect: its value for equal outputs.
        higher_is_better: which way it points.
    """

    value: Callable[[Output, Output], float]
    perfect: float
    higher_is_better: bool

    def damage(self, value: float) -> float:
        """Distance from perfect in the direction of worse."""
        return self.perfect - value if self.higher_is_better else value - self.perfect


def output_cosine(reference: Output, other: Output) -> float:
    """Cosine of all elements as one vector."""
    return float(cosine(reference.reshape(1, -1), other.reshape(1, -1))[0])


def relative_error(reference: Output, other: Output) -> float:
    """``||y - y'|| / ||y||``; 0 for two zero vectors, infinite for an error on a zero reference."""
    exact = reference.astype(np.float64)
    error = float(np.linalg.norm(exact - other))
    size = float(np.linalg.norm(exact))
    if size == 0:
        return 0.0 if error == 0 else float("inf")
    return error / size


def softmax_kl(reference: Output, other: Output) -> float:
    """Mean over positions of ``KL(softmax(y) || softmax(y'))`` along the last axis, in nats."""
    with np.errstate(invalid="ignore"):  # infinite logits give NaN
        p, q = _log_softmax(reference), _log_softmax(other)
        return float((np.exp(p) * (p - q)).sum(axis=-1).mean())


def _log_softmax(logits: Output) -> NDArray[np.float64]:
    x = np.atleast_1d(logits).astype(np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


OUTPUT_METRICS: Final[dict[str, OutputMetric]] = {
    "cosine": OutputMetric(output_cosine, 1.0, higher_is_better=True),
    "relative_error": OutputMetric(relative_error, 0.0, higher_is_better=False),
    "kl": OutputMetric(softmax_kl, 0.0, higher_is_better=False),
}
"""The metrics by their names in the configuration."""
