"""Features of integer inputs: token frequencies, how rare the tokens are, how many are unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.features.values import quantiles

BINS = 256
"""Categories that token ids are hashed into, fixed so that any two sets can be compared."""

_HASH = np.uint64(2654435761)


def token_features(ids: NDArray[Any], name: str, unknown: int | None) -> dict[str, float]:
    """How rare and how varied the tokens of a sample are.

    Vocabularies list frequent tokens first, by and large, so an id tells how rare its token is.

    Args:
        ids: integers of any shape, padding left out, at least one.
        name: of the input.
        unknown: id of the token for what the vocabulary lacks, or None.

    Returns:
        ``.median_id`` and ``.p90_id`` as ids, ``.distinct`` and ``.unknown`` as shares of the
        tokens, 0-1.
    """
    ordered = np.sort(ids, axis=None)
    median, rare = quantiles(ordered, (0.5, 0.9))
    distinct = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    found = {
        f"{name}.median_id": median,
        f"{name}.p90_id": rare,
        f"{name}.distinct": distinct / ids.size,
    }
    if unknown is not None:
        found[f"{name}.unknown"] = int(np.count_nonzero(ids == unknown)) / ids.size
    return found


def token_counts(ids: NDArray[Any]) -> NDArray[np.int64]:
    """How often tokens fall into each of `BINS` categories, ``(BINS,)`` int64.

    The category is the top byte of the id times 2654435761 modulo 2**32 (Knuth, The Art of Computer
    Programming 3, section 6.4).

    Args:
        ids: integers of any shape, padding left out.
    """
    product = (ids.astype(np.int64).astype(np.uint64) * _HASH) & np.uint64(0xFFFFFFFF)
    return np.bincount((product >> np.uint64(24)).astype(np.int64).ravel(), minlength=BINS)


def unknown_id(tokenizer: Path) -> int | None:
    """Id of the token for what a vocabulary lacks, as a ``tokenizer.json`` names it.

    Args:
        tokenizer: the file, known to be readable.
    """
    tree: dict[str, Any] = json.loads(tokenizer.read_text(encoding="utf-8"))
    model: dict[str, Any] = tree["model"]
    if model.get("unk_id") is not None:
        return int(model["unk_id"])
    token: str | None = model.get("unk_token")
    added = {entry["content"]: entry["id"] for entry in tree.get("added_tokens") or ()}
    vocabulary = model.get("vocab")
    known: dict[str, int] = {**vocabulary, **added} if isinstance(vocabulary, dict) else added
    return known.get(token) if token is not None else None
