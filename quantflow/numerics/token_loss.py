"""Negative log likelihood of tokens under the logits of a causal language model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_POSITIONS = 64
"""Positions taken at once: a vocabulary of 50,000 makes 25 MB of float64 of them."""


def token_losses(logits: NDArray[np.float32], tokens: NDArray[Any]) -> NDArray[np.float64]:
    """``-log softmax(logits[t])[tokens[t + 1]]``, in nats, of every token but the first.

    Args:
        logits: ``(L, V)`` float32; position t has seen the tokens up to t.
        tokens: ``(L,)`` integers, 0 to V - 1.

    Returns:
        ``(L - 1,)`` float64, NaN where a position's logits hold NaN or positive infinity.
    """
    targets = tokens[1:]
    found = np.empty(len(targets), np.float64)
    for start in range(0, len(targets), _POSITIONS):
        part = slice(start, min(start + _POSITIONS, len(targets)))
        x = logits[part].astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            x -= x.max(axis=-1, keepdims=True)
            chosen = np.take_along_axis(x, targets[part, None], axis=-1)[:, 0]
            found[part] = np.log(np.exp(x).sum(axis=-1)) - chosen
    return found


def mean_token_loss(tokens: NDArray[Any], logits: NDArray[np.float32]) -> float:
    """Mean of `token_losses` over the tokens of one sequence, NaN for a sequence of one token."""
    losses = token_losses(logits, tokens)
    return float(losses.mean()) if len(losses) else float("nan")
