"""What an .om file says of its inputs, and the check of what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import fail
from quantflow.runtime.runner import Feeds


@dataclass(frozen=True, slots=True)
class OmTensor:
    """An input or output.

    Attributes:
        name: an input's is that of the ONNX model; an output's often is ``node:0:name``.
        dtype: of numpy, such as ``float16``.
        shape: static.
        size: bytes of its buffer on the device.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int

    @property
    def nbytes(self) -> int:
        """Bytes of its values."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize


def check_static(tensors: Sequence[OmTensor], where: str) -> None:
    """Refuse shapes that are not fixed, and buffers that do not hold what the shape says.

    Raises:
        QuantflowError: QF211.
    """
    for tensor in tensors:
        if any(dim < 0 for dim in tensor.shape):
            what = f"{tensor.name!r} has the shape {tensor.shape}, which is not static"
            _refuse(what, where, "convert it with the static shapes of a bucket")
        if tensor.size < tensor.nbytes:
            what = f"{tensor.name!r} has {tensor.size} bytes, its shape and type {tensor.nbytes}"
            _refuse(what, where, "convert it again")


def in_order(feeds: Feeds, inputs: Sequence[OmTensor], where: str) -> list[NDArray[Any]]:
    """The arrays in the order of the .om's inputs, contiguous, nothing cast and nothing padded.

    Args:
        feeds: by name.
        inputs: as the .om describes them.
        where: the file, for the message.

    Raises:
        QuantflowError: QF211 when names, types, shapes or sizes are not those of the .om.
    """
    names = [tensor.name for tensor in inputs]
    if sorted(names) != sorted(feeds):
        _refuse(f"it reads {sorted(names)}, and is given {sorted(feeds)}", where)
    arrays = list[NDArray[Any]]()
    for tensor in inputs:
        array = np.ascontiguousarray(feeds[tensor.name]).reshape(feeds[tensor.name].shape)
        given, wanted = (str(array.dtype), array.shape), (tensor.dtype, tensor.shape)
        if given != wanted:
            _refuse(f"its input {tensor.name!r} is {_text(wanted)}, not {_text(given)}", where)
        if array.nbytes != tensor.size:
            what = f"its input {tensor.name!r} takes {tensor.size} bytes, not {array.nbytes}"
            _refuse(what, where)
        arrays.append(array)
    return arrays


def _text(kind: tuple[str, tuple[int, ...]]) -> str:
    return f"{kind[0]} {kind[1]}"


def _refuse(what: str, where: str, fix: str = "") -> NoReturn:
    fail("QF211", what, where=where, fix=fix or "give the .om of this run and of its first bucket")
