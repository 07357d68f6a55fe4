"""Which channels of a tensor go back to one channel further up, followed through nodes between.

Every element of a value belongs to a class; a scale is one number a class. Followed backwards
through a Reshape or Transpose, classes keep their elements. Where an input is used for several
elements of the output, as by the Expand that gives grouped heads their keys and values, the classes
of these become one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(slots=True)
class Classes:
    """Classes that are found to be one: a forest of them.

    Attributes:
        parent: ``(C,)`` of every class another one that it is the same as, or itself.
    """

    parent: Ids

    @classmethod
    def of(cls, count: int) -> Classes:
        """As many classes, all different."""
        return cls(np.arange(count, dtype=np.int64))

    def roots(self) -> Ids:
        """``(C,)`` one class that stands for all that are the same."""
        found = self.parent
        while True:
            further = found[found]
            if np.array_equal(further, found):
                return found
            found = further

    def count(self) -> int:
        """How many different ones there are."""
        return len(np.unique(self.roots()))

    def merge(self, a: Ids, b: Ids) -> None:
        """Make pairs of classes one, ``(P,)`` each."""
        for first, second in np.unique(np.stack([a, b], axis=1), axis=0):
            roots = self.roots()
            low, high = sorted((int(roots[first]), int(roots[second])))
            self.parent[high] = low

    def one_along(self, ids: Ids, axis: int) -> Ids:
        """Make all elements along an axis one class each; that axis then has size 1."""
        first = np.take(ids, [0], axis)
        if ids.shape[axis] > 1:
            differ = ids != first
            self.merge(np.broadcast_to(first, ids.shape)[differ], ids[differ])
        return first


def narrowed(ids: Ids) -> Ids:
    """The same with size 1 along every axis that it does not depend on."""
    for axis in range(ids.ndim):
        first = np.take(ids, [0], axis)
        if ids.shape[axis] > 1 and (ids == first).all():
            ids = first
    return ids
