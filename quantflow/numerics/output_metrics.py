"""How far a sample's outputs are from what is expected: the metrics that groups are ranked by.

A metric is a function and the direction it points in; `damage` turns either direction into a number
that is 0 for a perfect output and larger for a worse one (C36).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from quantflow.numerics.error_metrics import cosine, in_parts
from quantflow.numerics.token_loss import mean_token_loss

Output = NDArray[np.float32]


def mean(values: NDArray[np.float64]) -> float:
    """Mean over samples."""
    return float(values.mean())


@dataclass(frozen=True, slots=True)
class OutputMetric:
    """A metric of one sample.

    Attributes:
        value: of what is expected and of the output, arrays without batch axis.
        perfect: its value for the float model's output; None where that differs from sample to
            sample.
        higher_is_better: which way it points.
        against: what is expected: the float model's `output`, or the `tokens` that the text has.
        over_samples: what the ``(S,)`` values of samples come to.
    """

    value: Callable[[NDArray[Any], Output], float]
    perfect: float | None
    higher_is_better: bool
    against: Literal["output", "tokens"] = "output"
    over_samples: Callable[[NDArray[np.float64]], float] = mean

    def damage(
        self, values: NDArray[np.float64], of_float: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Distance from the float model's values in the direction of worse, sample by sample."""
        return of_float - values if self.higher_is_better else values - of_float


def output_cosine(reference: Output, other: Output) -> float:
    """Cosine of all elements as one vector."""
    return float(cosine(reference.reshape(1, -1), other.reshape(1, -1))[0])


def relative_error(reference: Output, other: Output) -> float:
    """``||y - y'|| / ||y||``; 0 for two zero vectors, infinite for an error on a zero reference."""
    noise, signal = 0.0, 0.0
    for a, b in in_parts(reference.reshape(1, -1), other.reshape(1, -1)):
        with np.errstate(invalid="ignore"):
            noise += float(np.square(a - b).sum())
        signal += float(np.square(a).sum())
    if signal == 0:
        return 0.0 if noise == 0 else float("inf")
    return float(np.sqrt(noise / signal))


def softmax_kl(reference: Output, other: Output) -> float:
    """Mean over positions of ``KL(softmax(y) || softmax(y'))`` along the last axis, in nats."""
    rows = [np.atleast_1d(x).reshape(-1, np.atleast_1d(x).shape[-1]) for x in (reference, other)]
    found = np.empty(len(rows[0]))
    for start in range(0, len(found), _POSITIONS):
        part = slice(start, start + _POSITIONS)
        with np.errstate(invalid="ignore"):  # infinite logits give NaN
            p, q = (_log_softmax(x[part]) for x in rows)
            found[part] = (np.exp(p) * (p - q)).sum(axis=-1)
    return float(found.mean())


_POSITIONS = 64
"""Positions taken at once: a vocabulary of 50,000 makes 25 MB of float64 of them."""


def _log_softmax(logits: Output) -> NDArray[np.float64]:
    x = logits.astype(np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def perplexity_of_means(losses: NDArray[np.float64]) -> float:
    """``exp`` of the mean of ``(S,)`` mean losses, infinite where that overflows.

    The perplexity of all tokens where samples are of one length, as rows of text are.
    """
    with np.errstate(over="ignore"):
        return float(np.exp(losses.mean()))


OUTPUT_METRICS: Final[dict[str, OutputMetric]] = {
    "cosine": OutputMetric(output_cosine, 1.0, higher_is_better=True),
    "relative_error": OutputMetric(relative_error, 0.0, higher_is_better=False),
    "kl": OutputMetric(softmax_kl, 0.0, higher_is_better=False),
    "perplexity": OutputMetric(
        mean_token_loss,
        None,
        higher_is_better=False,
        against="tokens",
        over_samples=perplexity_of_means,
    ),
}
"""The metrics by their names in the configuration. The values of `perplexity` are mean losses in
nats, so that its damage is the logarithm of the ratio to the float model's perplexity."""
