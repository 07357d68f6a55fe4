"""Histograms on disk: one safetensors file of the non-empty bins, equal bytes for equal data.

Under ``SPLIT/TENSOR/`` lie ``bins`` (uint16, ascending), ``counts`` (int64), ``extremes`` (low and
high, which are float32 values) and ``inf`` (int64).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.ranges_record import Split
from quantflow.artifacts.reading import reading
from quantflow.ranges.grid import BINS, Histogram

Histograms = Mapping[Split, Mapping[str, Histogram]]
"""Histogram of every tensor, by split and name."""


def save_histograms(path: Path, histograms: Histograms) -> None:
    """Write histograms; `load_histograms` gives back exactly what was written."""
    arrays = {
        f"{split}/{tensor}/{part}": array
        for split, by_tensor in histograms.items()
        for tensor, hist in by_tensor.items()
        for part, array in to_arrays(hist).items()
    }
    write_atomically(path, save(arrays))


def load_histograms(path: Path) -> dict[Split, dict[str, Histogram]]:
    """Read histograms, tensors in order of name.

    Raises:
        QuantflowError: QF502 when the file is missing, damaged or not one of `save_histograms`.
    """
    result: dict[Split, dict[str, Histogram]] = {split: {} for split in get_args(Split)}
    with reading(path, "histograms", "QF502", "calibrate"):
        arrays = load(path.read_bytes())
        for key in sorted(arrays):
            if key.endswith("/bins"):
                split, _, tensor = key.removesuffix("/bins").partition("/")
                parts = {p: arrays[f"{split}/{tensor}/{p}"] for p in ("counts", "extremes", "inf")}
                by_tensor = {str(name): found for name, found in result.items()}[split]
                by_tensor[tensor] = from_arrays(arrays[key], **parts)
    return result


def to_arrays(hist: Histogram) -> dict[str, NDArray[Any]]:
    """The arrays that stand for a histogram, by name."""
    bins = np.flatnonzero(hist.counts)
    return {
        "bins": bins.astype(np.uint16),
        "counts": hist.counts[bins],
        "extremes": np.array([hist.low, hist.high], np.float32),
        "inf": np.array([hist.inf], np.int64),
    }


def from_arrays(
    bins: NDArray[Any], counts: NDArray[Any], extremes: NDArray[Any], inf: NDArray[Any]
) -> Histogram:
    """The histogram that `to_arrays` gave these arrays for.

    Raises:
        ValueError: they are no such arrays.
    """
    dtypes = (bins.dtype, counts.dtype, extremes.dtype, inf.dtype)
    shapes = (counts.shape, extremes.shape, inf.shape)
    if dtypes != (np.uint16, np.int64, np.float32, np.int64) or bins.ndim != 1:
        raise ValueError(f"unexpected types {dtypes}")
    if shapes != (bins.shape, (2,), (1,)):
        raise ValueError(f"unexpected shapes {shapes}")
    if (counts <= 0).any() or (np.diff(bins.astype(np.int64)) <= 0).any():
        raise ValueError("counts must be positive and bins ascending")
    dense = np.zeros(BINS, np.int64)
    dense[bins] = counts
    return Histogram(dense, float(extremes[0]), float(extremes[1]), int(inf[0]))
