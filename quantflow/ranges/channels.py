"""Extremes of every channel of every sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quantflow.ranges.part import Part

Floats = NDArray[np.float32]

_TOP = np.float32(np.inf)


def channel_extremes(part: Part, axis: int) -> tuple[Floats, Floats]:
    """Smallest and largest finite value of every channel, padding excluded.

    Args:
        part: values of n samples.
        axis: of the channels in the tensor, -1 or 1.

    Returns:
        Two arrays ``(n, K)`` float32; ``inf`` and ``-inf`` for a channel without any value.
    """
    low, high = _plain(part.values, axis) if part.real is None else _padded(part, axis)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return _where(part, axis)
    return low, high


def _plain(values: Floats, axis: int) -> tuple[Floats, Floats]:
    if axis == -1:
        rows = values.reshape(len(values), -1, values.shape[-1])
        return rows.min(axis=1, initial=_TOP), rows.max(axis=1, initial=-_TOP)
    # First along what lies together in memory.
    maps = values.reshape(*values.shape[:3], -1)
    low, high = maps.min(axis=3, initial=_TOP), maps.max(axis=3, initial=-_TOP)
    return low.min(axis=1), high.max(axis=1)


def _padded(part: Part, axis: int) -> tuple[Floats, Floats]:
    """Sample by sample, whose rows are copied, where padding is whole rows."""
    if axis != -1 or not part.whole_rows:
        return _where(part, axis)
    found = [
        _plain(rows[real].reshape(1, -1, rows.shape[-1]), -1)
        for rows, real in zip(part.values, part.spread(), strict=True)
    ]
    return np.concatenate([low for low, _ in found]), np.concatenate([high for _, high in found])


def _where(part: Part, axis: int) -> tuple[Floats, Floats]:
    """The same, one value at a time told apart."""
    values, counts = part.values, np.isfinite(part.values)
    if part.real is not None:
        real = part.real.reshape(part.real.shape + (1,) * (values.ndim - part.real.ndim))
        counts &= real
    kept = values.ndim - 1 if axis == -1 else 2
    others = tuple(i for i in range(1, values.ndim) if i != kept)
    low = values.min(axis=others, initial=_TOP, where=counts)
    return low, values.max(axis=others, initial=-_TOP, where=counts)
