"""Retrieval: how high up does a query find its document, among all documents by cosine?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import fail

METRIC = "mrr"
RECALLS = (1, 10)
"""Places up to which a document counts as found."""
_BLOCK = 2**21
"""Cosines computed at once: 16 MB of them."""
_EQUAL = 1e-12
"""Cosines this close are equal: sums of the same numbers in another order differ by less."""

Embeddings = NDArray[np.float32]


def embedding_of(outputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    """The first output, which holds a sample's embedding.

    Raises:
        QuantflowError: QF317 when it is no vector of floats.
    """
    name, vector = next(iter(outputs.items()))
    if vector.ndim != 1 or not np.issubdtype(vector.dtype, np.floating):
        fail(
            "QF317",
            f"output {name!r} has shape {vector.shape} and type {vector.dtype} for a record",
            where="task.kind",
            fix="retrieval needs a first output of (batch, width), pooled over positions",
        )
    return vector.astype(np.float32, copy=False)


def ranks(
    queries: Embeddings, documents: Embeddings, relevant: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The place of every query's document among all documents by cosine, the best first.

    One more than the documents with a larger cosine, and half of the others with an equal one: the
    mean place over all orders of equals. So a model whose embeddings are all the same gains
    nothing by it.

    Args:
        queries: ``(Q, D)``; a zero vector has cosine 0 to all others.
        documents: ``(N, D)``.
        relevant: ``(Q,)``, places among the documents.

    Returns:
        ``(Q,)``, 1 to N; NaN where a cosine of the query is not finite.
    """
    columns, found = _units(documents).T, np.empty(len(queries))
    step = max(_BLOCK // len(documents), 1)
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        with np.errstate(invalid="ignore"):
            cosines = _units(queries[part]) @ columns
        own = np.take_along_axis(cosines, relevant[part, None], axis=1)
        better = np.count_nonzero(cosines > own + _EQUAL, axis=1)
        equal = np.count_nonzero(np.abs(cosines - own) <= _EQUAL, axis=1) - 1
        broken = ~np.isfinite(cosines).all(axis=1)
        found[part] = np.where(broken, np.nan, 1 + better + equal / 2)
    return found


def reciprocal_ranks(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """One over each rank; their mean is the MRR (Voorhees, TREC-8, 1999)."""
    return 1 / found


def recall(found: NDArray[np.float64], place: int) -> NDArray[np.float64]:
    """1 where a document is found at `place` or before it, else 0; NaN where there is no rank."""
    return np.where(np.isnan(found), np.nan, found <= place)


def _units(rows: Embeddings) -> NDArray[np.float64]:
    """Rows of length one, in float64."""
    wide = rows.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return wide / np.where(norms > 0, norms, 1)
