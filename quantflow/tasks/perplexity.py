"""Perplexity: how well a causal language model foretells a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import fail

METRIC = "perplexity"

Arrays = Mapping[str, NDArray[Any]]


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


def perplexity_of_loss(loss: float) -> float:
    """``exp`` of the mean negative log likelihood of a text's tokens, infinite where it overflows.

    1 or more, lower is better; the size of the vocabulary is chance (Jelinek, Mercer, Bahl and
    Baker 1977).
    """
    with np.errstate(over="ignore"):
        return float(np.exp(loss))
