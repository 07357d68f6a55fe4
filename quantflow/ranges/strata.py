"""The rows that ranges are judged by: some of all, and those that reach farthest, each by weight.

A uniform sample of a few hundred rows may hold none of the few that a narrower range would clip,
and then tells nothing of them. They are a stratum of their own (Neyman 1934): a row counts as much
as the rows that it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Strata:
    """Rows of a tensor in one view.

    Attributes:
        rows: ``(R, K)`` float32, no row twice unless it was seen twice.
        weights: ``(R,)`` float64, how many rows each stands for, scaled to a mean of 1.
        farthest: ``(r, K)`` each: the kinds of rows that reach far, which are among `rows`.
    """

    rows: Rows
    weights: NDArray[np.float64]
    farthest: tuple[Rows, ...] = ()


def strata(uniform: Rows, farthest: Sequence[Rows], count: int) -> Strata:
    """Put the samples of a tensor's rows together.

    Args:
        uniform: ``(R, K)`` float32, any rows.
        farthest: ``(r, K)`` each, for every kind all rows that reach farthest.
        count: number of rows that there were; as many as are given at least.
    """
    far = uniform[:0]
    for rows in farthest:
        far = np.concatenate([far, _without(rows, far)])
    rest = _without(uniform, far)
    others = max(count - len(far), 0)
    each = others / len(rest) if len(rest) else 0.0
    weights = np.concatenate([np.full(len(rest), max(each, 1.0)), np.ones(len(far))])
    scale = 1 / weights.mean() if len(weights) else 1.0
    kinds = tuple(rows for rows in farthest if len(rows))
    return Strata(np.concatenate([rest, far]), weights * scale, kinds)


def _without(rows: Rows, others: Rows) -> Rows:
    """The rows that are not among some others."""
    if not len(rows) or not len(others):
        return rows
    return rows[~np.isin(_as_items(rows), _as_items(others))]


def _as_items(rows: Rows) -> NDArray[np.void]:
    """``(R,)``: the bytes of each row as one item."""
    whole = np.ascontiguousarray(rows)
    return whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()
