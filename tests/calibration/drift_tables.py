"""Feature tables made up for tests."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.features.table import FeatureTable
from quantflow.calibration.features.text import text_features
from quantflow.calibration.profile.profile import Profile, make_profile


def table(values: NDArray[np.float64], name: str = "s", **more: object) -> FeatureTable:
    """A table of `values` ``(N, F)`` with features f0, f1, ...; digests differ from row to row."""
    ids = tuple(f"{name}[{i}]" for i in range(len(values)))
    digests = more.get("digests") or tuple(sha256(x.encode()).hexdigest() for x in ids)
    counts, categories = more.get("counts") or {}, more.get("categories") or {}
    names = tuple(f"f{i}" for i in range(values.shape[1]))
    return FeatureTable(ids, digests, names, values, counts, categories)  # type: ignore[arg-type]


def normal(
    rng: np.random.Generator, count: int, features: int = 6, name: str = "s"
) -> FeatureTable:
    """`count` samples of independent standard normal features."""
    return table(rng.standard_normal((count, features)), name)


def text_table(texts: Sequence[str], name: str) -> FeatureTable:
    """The text features of some texts, whose digests are the texts themselves."""
    rows = [text_features(text) for text in texts]
    return FeatureTable(
        ids=tuple(f"{name}[{i}]" for i in range(len(texts))),
        digests=tuple(texts),
        names=tuple(rows[0]),
        values=np.array([list(row.values()) for row in rows]),
        counts={},
    )


def profile(rows: FeatureTable) -> Profile:
    """The profile of a table whose features all need no model."""
    return make_profile(rows, len(rows.names))
