"""The features of a set's samples, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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
        counts: by name of the feature, ``(N, B)`` int64: how often each of B things, such as
            tokens, occurs in the sample.
        categories: by name of the feature, ``(N, C)`` int64: 1 for the category that the sample is
            of, 0 for the others.
    """

    ids: tuple[str, ...]
    digests: tuple[str, ...]
    names: tuple[str, ...]
    values: NDArray[np.float64]
    counts: Mapping[str, NDArray[np.int64]]
    categories: Mapping[str, NDArray[np.int64]] = field(
        default_factory=dict[str, NDArray[np.int64]]
    )

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
            categories={name: found[index] for name, found in self.categories.items()},
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

    def narrowed(self, other: FeatureTable) -> FeatureTable:
        """The features that another table has, too."""
        names = tuple(name for name in self.names if name in other.names)
        return replace(
            self,
            names=names,
            values=self.columns(names),
            counts={name: x for name, x in self.counts.items() if name in other.counts},
            categories={name: x for name, x in self.categories.items() if name in other.categories},
        )

    def columns(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Some scalar features, ``(N, len(names))``; KeyError for one that there is not."""
        places = {name: place for place, name in enumerate(self.names)}
        return self.values[:, [places[name] for name in names]]


def concatenate(tables: Sequence[FeatureTable]) -> FeatureTable:
    """The samples of all tables, with the features that all of them have.

    Args:
        tables: at least one.
    """
    first = tables[0]
    names = tuple(x for x in first.names if all(x in table.names for table in tables))

    def joined(kind: str) -> dict[str, NDArray[np.int64]]:
        parts: list[Mapping[str, NDArray[np.int64]]] = [getattr(table, kind) for table in tables]
        common = [name for name in parts[0] if all(name in part for part in parts)]
        return {name: np.concatenate([part[name] for part in parts]) for name in common}

    return FeatureTable(
        ids=tuple(x for table in tables for x in table.ids),
        digests=tuple(x for table in tables for x in table.digests),
        names=names,
        values=np.concatenate([table.columns(names) for table in tables]),
        counts=joined("counts"),
        categories=joined("categories"),
    )
