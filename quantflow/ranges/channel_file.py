"""Largest magnitude of every channel on disk: one safetensors file, ``SPLIT/TENSOR`` float32."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.ranges_record import Split
from quantflow.artifacts.reading import reading

ChannelAbsmax = Mapping[Split, Mapping[str, NDArray[np.float32]]]
"""``(C,)`` float32 of every tensor and its C channels, by split and name."""


def save_channel_absmax(path: Path, found: ChannelAbsmax) -> None:
    """Write magnitudes; `load_channel_absmax` gives back exactly what was written."""
    arrays = {
        f"{split}/{tensor}": np.ascontiguousarray(absmax)
        for split, by_tensor in found.items()
        for tensor, absmax in by_tensor.items()
    }
    write_atomically(path, save(arrays))


def load_channel_absmax(path: Path) -> dict[Split, dict[str, NDArray[np.float32]]]:
    """Read magnitudes, tensors in order of name.

    Raises:
        QuantflowError: QF504 when the file is missing, damaged or not one of `save_channel_absmax`.
    """
    result: dict[Split, dict[str, NDArray[np.float32]]] = {x: {} for x in get_args(Split)}
    with reading(path, "magnitudes of channels", "QF504", "calibrate"):
        arrays = load(path.read_bytes())
        for key in sorted(arrays):
            split, _, tensor = key.partition("/")
            if arrays[key].dtype != np.float32 or arrays[key].ndim != 1:
                raise ValueError(f"{key} is not a vector of float32")
            {str(name): found for name, found in result.items()}[split][tensor] = arrays[key]
    return result
