"""Locality-sensitive hashing: which of many rows are alike, without comparing all with all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW = 16
"""Rows of a bucket that each is compared with, which keeps the work linear in the rows."""

_AT_ONCE = 8192
"""Pairs that are compared in one go, which bounds memory."""

Alike = Callable[[NDArray[np.intp], NDArray[np.intp]], NDArray[np.bool_]]


def different_rows(rows: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The different rows of an array, in an order that follows from their content alone.

    Args:
        rows: ``(N, K)`` of any dtype, compared by their bytes.

    Returns:
        ``(D,)`` the position of one row of every kind, and ``(N,)`` the kind of every row.
    """
    if not len(rows):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    whole = np.ascontiguousarray(rows).view(f"V{rows.shape[1] * rows.itemsize}").ravel()
    _, first, kind = np.unique(whole, return_index=True, return_inverse=True)
    return first, kind.ravel()


def connect(keys: NDArray[np.uint64], alike: Alike) -> NDArray[np.intp]:
    """Put rows into groups, by locality-sensitive hashing (Indyk and Motwani 1998).

    Rows with an equal key are candidates for a pair. Of large buckets, each row is compared with
    those next to it in the order of the next band's keys, so that the nearest come together.

    Args:
        keys: ``(N, B)`` a key a band; rows that are much alike share some of them.
        alike: tells for every pair of positions whether it belongs together.

    Returns:
        ``(N,)`` the group of every row, named by its first row: rows that are alike, and those
        that others connect.
    """
    firsts, seconds = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
    for a, b in _candidates(keys):
        kept = alike(a, b)
        firsts.append(a[kept])
        seconds.append(b[kept])
    return _components(len(keys), np.concatenate(firsts), np.concatenate(seconds))


def _candidates(
    keys: NDArray[np.uint64],
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    bands = keys.shape[1]
    for band in range(bands):
        order = np.lexsort((keys[:, (band + 1) % bands], keys[:, band]))
        key = keys[order, band]
        for step in range(1, WINDOW):
            places = np.flatnonzero(key[step:] == key[:-step])
            if not len(places):
                break  # nor is any bucket larger
            for start in range(0, len(places), _AT_ONCE):
                some = places[start : start + _AT_ONCE]
                yield order[some], order[some + step]


def _components(
    count: int, firsts: NDArray[np.intp], seconds: NDArray[np.intp]
) -> NDArray[np.intp]:
    """``(count,)`` the smallest member of every node's connected component.

    Union-find for all edges at once: every root takes over the smallest root beside it, and paths
    are cut short, until no edge joins two roots.
    """
    root = np.arange(count)
    while True:
        a, b = root[firsts], root[seconds]
        if (a == b).all():
            return root
        np.minimum.at(root, np.maximum(a, b), np.minimum(a, b))
        while not (root[root] == root).all():
            root = root[root]
