"""The features of a set's samples, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Features of N samples.

    Attributes:
        ids: where every sample came from.
        digests: content digest of every sample.
        names: of the F scalar features.
        values: ``(N, F)`` float64, one number per sample and feature.
        counts: by name of the feature, ``(N, B)`` int64: how often each of B categories occurs.
    """

    ids: tuple[str, ...]
    digests: tuple[str, ...]
    names: tuple[str, ...]
    values: NDArray[np.float64]
    counts: Mapping[str, NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int] | NDArray[np.intp]) -> FeatureTable:
        """The samples at some positions, in that order."""
        index = np.array(rows, np.intp)
        return FeatureTable(
            ids=tuple(self.ids[int(i)] for i in rows),
            digests=tuple(self.digests[int(i)] for i in rows),
            names=self.names,
            values=self.values[index],
            counts={name: counts[index] for name, counts in self.counts.items()},
        )

    def sorted(self) -> FeatureTable:
        """The same samples in an order that follows from their content alone."""
        return self.take(sorted(range(len(self)), key=lambda i: (self.digests[i], self.ids[i])))

    def with_scalars(self, names: Sequence[str], values: NDArray[np.float64]) -> FeatureTable:
        """A table with further scalar features.

        Args:
            names: of the features.
            values: ``(N, len(names))``.
        """
        both = np.concatenate([self.values, values], axis=1)
        return replace(self, names=(*self.names, *names), values=both)


def shared(a: FeatureTable, b: FeatureTable) -> tuple[FeatureTable, FeatureTable]:
    """Both tables with the features that both have, in the order of the first."""
    names = [name for name in a.names if name in b.names]
    counts = [name for name in a.counts if name in b.counts]

    def narrow(table: FeatureTable) -> FeatureTable:
        columns = [table.names.index(name) for name in names]
        return replace(
            table,
            names=tuple(names),
            values=table.values[:, columns],
            counts={name: table.counts[name] for name in counts},
        )

    return narrow(a), narrow(b)
