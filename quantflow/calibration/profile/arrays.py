"""Arrays of a profile's file, of the types and shapes that they must have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantflow.calibration.profile.refusal import refuse

Arrays = Mapping[str, NDArray[Any]]

MOST = 2**46
"""A count at most: sums of as many of them as there are bins fit into int64."""


def smallest(found: NDArray[np.int64]) -> NDArray[Any]:
    """Counts in the smallest unsigned type that holds them."""
    return found.astype(np.min_scalar_type(int(found.max(initial=0))))


def counts(array: NDArray[Any], shape: tuple[int | str, ...]) -> NDArray[np.int64]:
    """An array of counts as int64; ValueError for anything else."""
    check_shape(array, shape)
    if array.dtype.kind not in "iu" or (array.dtype.kind == "i" and (array < 0).any()):
        raise ValueError(f"counts cannot be {array.dtype}")
    refuse(array.size and int(array.max()) > MOST, "a count is impossible")
    return array.astype(np.int64)


def floats(
    array: NDArray[Any],
    shape: tuple[int | str, ...],
    dtype: type[np.floating[Any]] = np.float64,
    *,
    finite: bool = False,
) -> NDArray[Any]:
    """An array of floats of one type; ValueError for anything else."""
    check_shape(array, shape)
    if array.dtype != dtype or (finite and not np.isfinite(array).all()):
        raise ValueError(f"unexpected numbers of type {array.dtype}")
    return array


def check_shape(array: NDArray[Any], shape: tuple[int | str, ...]) -> None:
    """Raise ValueError for another shape; a size that is given by name is free."""
    fits = len(array.shape) == len(shape) and all(
        isinstance(wanted, str) or wanted == found
        for wanted, found in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"an array has shape {array.shape}, expected {shape}")
