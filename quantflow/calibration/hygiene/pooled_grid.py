"""Near duplicates among pictures, sound and other measurements: equal when seen from afar."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.hygiene.banding import connect, different_rows

SIDE = 16
"""Cells of a grid along either side of a picture; other measurements have `SIDE**2` in a row."""

NEAR = 0.99
"""Correlation of the grids from which two samples are near duplicates."""

LEAST = 64
"""Values from which a sample has a grid: fewer coincide without being the same thing."""

_BANDS = 12
"""Of 16 bits each; a pair at `NEAR` shares one with probability 0.9996."""

_FLAT = 1e-6
"""Cells that differ by no more than this share of the largest are one flat field."""


def pooled_grid(array: NDArray[Any], channels: int | None) -> NDArray[np.int8]:
    """A sample in little: means over the cells of a grid, less their mean, scaled to 127.

    So neither size nor brightness nor contrast of a picture matters, and noise hardly.

    Args:
        array: numbers of any shape, without the batch axis and padding.
        channels: axis of a picture's channels, or None for anything else.

    Returns:
        ``(SIDE**2,)``; zeros for less than `LEAST` values and for a flat field.
    """
    found = np.zeros(SIDE * SIDE, np.int8)
    if array.size < LEAST:
        return found
    if channels is None:
        cells = _means(array.reshape(1, -1), 1, SIDE * SIDE)
    else:
        cells = _means(array.mean(axis=channels, dtype=np.float32), SIDE, SIDE)
    low, high = float(cells.min()), float(cells.max())
    if high - low <= _FLAT * max(abs(low), abs(high)):
        return found
    cells -= cells.mean()
    scaled = np.rint(cells * (127 / np.abs(cells).max())).astype(np.int8)
    found[: scaled.size] = scaled.ravel()
    return found


def near_duplicates(grids: NDArray[np.int8]) -> NDArray[np.intp]:
    """Which samples are near duplicates, whatever their order.

    Args:
        grids: ``(N, SIDE**2)``.

    Returns:
        ``(N,)`` the group of every sample: those whose grids correlate by `NEAR` or more, and those
        that such samples connect. Grids of zeros are like no other.
    """
    first, kind = different_rows(grids)
    rows = grids[first].astype(np.float32)  # small whole numbers: all sums below are exact
    energy = np.square(rows).sum(axis=1, dtype=np.float64)

    def alike(a: NDArray[np.intp], b: NDArray[np.intp]) -> NDArray[np.bool_]:
        product = np.einsum("nc,nc->n", rows[a], rows[b]).astype(np.float64)
        return (product > 0) & (product >= NEAR * np.sqrt(energy[a] * energy[b]))

    groups = connect(_keys(rows), alike)[kind]
    flat = ~grids.any(axis=1)
    groups[flat] = len(groups) + np.arange(np.count_nonzero(flat))
    return groups


def _means(values: NDArray[Any], rows: int, columns: int) -> NDArray[np.float64]:
    """Means over the cells of a grid, as many as there are values at most."""
    sums = values.astype(np.float64)
    for axis, wanted in ((0, rows), (1, columns)):
        size = values.shape[axis]
        count = min(wanted, size)
        edges = np.arange(count) * size // count
        widths = np.diff(edges, append=size)
        sums = np.add.reduceat(sums, edges, axis=axis)
        sums /= widths[:, None] if axis == 0 else widths
    return sums


def _keys(rows: NDArray[np.float32]) -> NDArray[np.uint64]:
    """``(N, _BANDS)``: on which side of random planes a grid lies (Charikar 2002)."""
    signs = np.random.default_rng(0).integers(0, 2, (rows.shape[1], 16 * _BANDS)) * 2 - 1
    bits = np.packbits(rows @ signs.astype(np.float32) >= 0, axis=1)
    return bits.view(np.uint16).astype(np.uint64)
