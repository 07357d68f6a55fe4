"""Checks that a sample fits the model: names, dtype, rank, dimensions, usable values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from quantflow.artifacts.model_record import TensorInfo
from quantflow.errors import did_you_mean, fail


def check_sample(
    arrays: Mapping[str, Any], inputs: Sequence[TensorInfo], sample: str
) -> dict[str, NDArray[Any]]:
    """The arrays of a sample in the inputs' order and dtypes.

    Args:
        arrays: array-likes by input name, without the batch axis.
        inputs: the model's inputs, with the batch axis.
        sample: id of the sample, for error messages.

    Returns:
        One contiguous array per input.

    Raises:
        QuantflowError: QF306 when the arrays do not fit the inputs or the mask has negative values,
            QF307 when one is empty or all padding, QF315 when one is not finite.
    """
    _check_names(arrays, inputs, sample)
    checked: dict[str, NDArray[Any]] = {}
    dims: dict[str, tuple[int, str]] = {}
    for tensor in inputs:
        array = cast_safely(_as_array(arrays[tensor.name], tensor, sample), tensor, sample)
        _check_shape(array, tensor, dims, sample)
        _check_values(array, tensor, sample)
        checked[tensor.name] = np.asarray(
            array, order="C"
        )  # ascontiguousarray adds an axis to a scalar
    return checked


def cast_safely(array: NDArray[Any], tensor: TensorInfo, sample: str) -> NDArray[Any]:
    """Convert to the input's dtype where the values survive it.

    Integers and booleans must come back unchanged; floats may be rounded, but not become infinite,
    and never become integers.
    """
    wanted = np.dtype(tensor.dtype)
    if array.dtype == wanted:
        return array
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and wanted.kind != "f"):
        _refuse(sample, tensor, f"dtype {wanted}", f"found {array.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        result = array.astype(wanted)
        if array.dtype.kind == "f":
            kept = np.isfinite(result) == np.isfinite(array)
        else:
            kept = result.astype(array.dtype) == array
    if not kept.all():
        found = f"found {array.dtype} with values that do not fit"
        _refuse(sample, tensor, f"dtype {wanted}", found)
    return result


def _as_array(value: Any, tensor: TensorInfo, sample: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError:
        found = "found nested lists of unequal length"
        _refuse(sample, tensor, f"an array of {tensor.dtype}", found)
    except (TypeError, RuntimeError) as error:  # such as a tensor that requires grad
        found = f"found a {type(value).__name__} that is none: {error}"
        _refuse(sample, tensor, f"an array of {tensor.dtype}", found)


def _check_names(arrays: Mapping[str, Any], inputs: Sequence[TensorInfo], sample: str) -> None:
    names = [tensor.name for tensor in inputs]
    for name in names:
        if name not in arrays:
            what = f"{sample} has no array for the model's input {name!r}"
            fail("QF306", what, where=sample, fix=did_you_mean(name, map(str, arrays)))
    for name in arrays:
        if name not in names:
            what = f"{sample} has an array {name!r}, which is no input of the model"
            fail("QF306", what, where=sample, fix=did_you_mean(str(name), names))


def _check_shape(
    array: NDArray[Any], tensor: TensorInfo, dims: dict[str, tuple[int, str]], sample: str
) -> None:
    """Rank, fixed dimensions, and free ones against those of the inputs before (kept in `dims`)."""
    expected = tensor.shape[1:]
    wanted = f"shape {_text(expected)} without the batch axis"
    if array.ndim != len(expected):
        found = f"found shape {_text(array.shape)}"
        if array.ndim == len(tensor.shape) and array.shape[0] == 1:
            found += ", which seems to have the batch axis"
        _refuse(sample, tensor, wanted, found)
    for dim, size in zip(expected, array.shape, strict=True):
        if isinstance(dim, int) and dim != size:
            _refuse(sample, tensor, wanted, f"found shape {_text(array.shape)}")
        if isinstance(dim, str):
            other, name = dims.setdefault(dim, (size, tensor.name))
            if other != size:
                found = f"found {dim} = {size}, but {other} in input {name!r}"
                _refuse(sample, tensor, wanted, found)


def _check_values(array: NDArray[Any], tensor: TensorInfo, sample: str) -> None:
    where = f"{sample}, input {tensor.name!r}"
    if not array.size:
        fail("QF307", f"{sample} is empty: shape {_text(array.shape)}", where=where)
    added = f"if it is added to scores, say mask = false in [model.inputs.{tensor.name}]"
    if tensor.mask and not array.any():
        what = f"{sample} is all padding: its mask is 0 everywhere"
        fail("QF307", what, where=where, fix=f"remove the record; {added}")
    if tensor.mask and (array < 0).any():
        what = f"{sample} has negative values in its mask, which is 0 at padding and 1 elsewhere"
        fail("QF306", what, where=where, fix=added)
    bad = array.size - int(np.isfinite(array).sum())
    if bad:
        what = f"{sample} holds {bad} values that are NaN or Inf"
        fail("QF315", what, where=where, fix="mend or remove the record")


def _refuse(sample: str, tensor: TensorInfo, expected: str, found: str) -> NoReturn:
    what = f"{sample}: input {tensor.name!r} needs {expected}, {found}"
    fail("QF306", what, where=sample)


def _text(shape: Sequence[int | str]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"
