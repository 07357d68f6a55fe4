"""Perplexity: how well a causal language model foretells a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import fail
from quantflow.numerics.bootstrap import bootstrap_interval
from quantflow.numerics.token_loss import token_losses

METRIC = "perplexity"

Arrays = Mapping[str, NDArray[Any]]


class TextLosses:
    """Losses of every sample of a set, gathered as the model's outputs come by.

    Only two numbers of a sample are kept, for its logits take 100 MB and more.

    Args:
        tokens: name of the input that holds the token ids.
        samples: how many samples there are.

    Attributes:
        sums: ``(S,)`` float64, loss of all tokens of each sample, in nats.
        counts: ``(S,)`` int64, how many tokens that are: all but the first.
    """

    def __init__(self, tokens: str, samples: int) -> None:
        self._tokens = tokens
        self.sums = np.full(samples, np.nan)
        self.counts = np.zeros(samples, np.int64)

    def add(self, index: int, inputs: Arrays, outputs: Arrays) -> None:
        """Note one sample.

        Args:
            index: its position in the set.
            inputs, outputs: its arrays, without batch axis and padding.

        Raises:
            QuantflowError: QF310 when the first output is no logits of the tokens.
        """
        logits, tokens = logits_of(outputs, inputs[self._tokens]), inputs[self._tokens]
        losses = token_losses(logits, tokens)
        self.sums[index], self.counts[index] = losses.sum(), len(losses)


def logits_of(outputs: Arrays, tokens: NDArray[Any]) -> NDArray[np.float32]:
    """The first output, which holds a logit for every position and word of the vocabulary.

    Raises:
        QuantflowError: QF310 when its shape is not ``(tokens, vocabulary)``, or a token lies
            beyond the vocabulary.
    """
    name, logits = next(iter(outputs.items()))
    vocabulary = logits.shape[-1] if logits.ndim == 2 else 0
    if tokens.ndim != 1 or logits.ndim != 2 or len(logits) != len(tokens):
        fail(
            "QF310",
            f"output {name!r} has shape {logits.shape} for tokens of shape {tokens.shape}",
            where="task.kind",
            fix="perplexity needs a model whose first output is (batch, length, vocabulary) logits",
        )
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < vocabulary:
        fail(
            "QF310",
            f"tokens reach from {tokens.min()} to {tokens.max()}, the vocabulary has {vocabulary}",
            where="task.tokens",
        )
    return logits


def perplexity(sums: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    """``exp`` of the mean negative log likelihood of all tokens but the first of each text.

    A text's tokens are foretold from those before them in the same sample, never across samples
    (Jelinek, Mercer, Bahl and Baker 1977). Lower is better; the size of the vocabulary is chance.

    Args:
        sums: ``(S,)`` loss of all tokens of each sample, in nats.
        counts: ``(S,)`` how many they are.

    Returns:
        1 or more; infinite where it overflows, NaN where a loss is NaN or nothing is foretold.
    """
    tokens = int(counts.sum())
    with np.errstate(over="ignore"):
        return float(np.exp(sums.sum() / tokens)) if tokens else float("nan")


def perplexity_interval(
    sums: NDArray[np.float64], counts: NDArray[np.int64], *, seed: int
) -> tuple[float, float]:
    """95% bootstrap interval of `perplexity` over samples, for tokens of a text depend on another.

    NaN where a loss is not finite.
    """
    if not np.isfinite(sums).all():
        return float("nan"), float("nan")
    return bootstrap_interval(
        lambda draw: perplexity(sums[draw], counts[draw]), len(sums), seed=seed
    )


def rise(of_int8: float, of_fp32: float) -> float:
    """By what fraction of fp32's a perplexity is larger; NaN where one is not finite."""
    with np.errstate(invalid="ignore"):
        return float(np.float64(of_int8) / np.float64(of_fp32) - 1)
