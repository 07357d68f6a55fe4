"""The features of a set's samples, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
        index = np.asarray(rows, np.intp)
        return FeatureTable(
            ids=tuple(self.ids[i] for i in index),
            digests=tuple(self.digests[i] for i in index),
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
        return FeatureTable(
            ids=self.ids,
            digests=self.digests,
            names=(*self.names, *names),
            values=np.concatenate([self.values, values], axis=1),
            counts=self.counts,
        )
