"""Integers that INT8 layers hold in place of their float weights rounded to the nearest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from quantflow.artifacts.atomic import write_atomically
from quantflow.artifacts.reading import reading


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """What one layer holds when it is INT8.

    Attributes:
        weight: ``(K, N)`` int8, the matrix form of the weight.
        scales: ``(N,)`` or ``(1,)`` float32, units of the weight per step.
        bias: ``(N,)`` float32, or None for a layer without one.
    """

    weight: NDArray[np.int8]
    scales: NDArray[np.float32]
    bias: NDArray[np.float32] | None


Int8Weights = Mapping[str, LayerWeights]
"""By the layer's name; one that is not named has its float weight rounded to the nearest."""

NEAREST: Final[Int8Weights] = MappingProxyType({})
"""No layer is named."""

_TYPES = {"weight": np.dtype(np.int8), "scales": np.dtype(np.float32), "bias": np.dtype(np.float32)}


def save_int8_weights(path: Path, weights: Int8Weights) -> None:
    """Write weights; `load_int8_weights` gives back exactly what was written."""
    arrays = dict[str, NDArray[np.generic]]()
    for name, entry in weights.items():
        arrays[f"{name}/weight"], arrays[f"{name}/scales"] = entry.weight, entry.scales
        if entry.bias is not None:
            arrays[f"{name}/bias"] = entry.bias
    write_atomically(path, save({key: np.ascontiguousarray(arrays[key]) for key in sorted(arrays)}))


def load_int8_weights(path: Path) -> dict[str, LayerWeights]:
    """Read weights, layers in order of name; none where there is no such file.

    Raises:
        QuantflowError: QF506 when the file is damaged or not one of `save_int8_weights`.
    """
    if not path.exists():
        return {}
    by_layer = dict[str, dict[str, NDArray[np.generic]]]()
    with reading(path, "rounded weights", "QF506", "optimize"):
        for key, array in sorted(load(path.read_bytes()).items()):
            name, _, part = key.rpartition("/")
            if array.dtype != _TYPES[part] or array.ndim != (2 if part == "weight" else 1):
                raise ValueError(f"{key} has another type or shape")
            by_layer.setdefault(name, {})[part] = array
        return {name: _layer(name, parts) for name, parts in by_layer.items()}


def _layer(name: str, parts: Mapping[str, NDArray[np.generic]]) -> LayerWeights:
    weight, bias = parts["weight"], parts.get("bias")
    scales = parts["scales"].astype(np.float32)
    columns = weight.shape[1]
    if not name or not (np.isfinite(scales).all() and (scales > 0).all()):
        raise ValueError(f"no scales of a layer {name!r}")
    if len(scales) not in (1, columns) or (bias is not None and len(bias) != columns):
        raise ValueError(f"the parts of {name} do not fit together")
    return LayerWeights(
        weight.astype(np.int8),
        scales,
        None if bias is None else bias.astype(np.float32),
    )
