"""What an .om file says of its inputs and outputs, and the check of what it is given."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from quantflow.errors import fail
from quantflow.printable import printable, shown
from quantflow.runtime.runner import Feeds

DTYPES: Final = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
)
"""Types of numpy that are compared."""

MOST: Final = 1024
"""Most inputs, and most outputs."""

_MOST_DIMS = 32


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


def check_described(inputs: Sequence[OmTensor], outputs: Sequence[OmTensor], where: str) -> None:
    """Refuse a description that no model to be compared has.

    That is: none or two inputs or outputs of one name, types that are not compared, shapes that
    are not fixed, buffers that do not hold what the shape says, and more bytes than there is
    memory.

    Raises:
        QuantflowError: QF211.
    """
    for side, tensors in (("inputs", inputs), ("outputs", outputs)):
        names = sorted(tensor.name for tensor in tensors)
        if not 0 < len(set(names)) == len(names) <= MOST:
            what = f"its {side} are none, too many or two of one name: {shown(names)}"
            _refuse(what, where, "convert it again")
    for tensor in (*inputs, *outputs):
        if tensor.dtype not in DTYPES or len(tensor.shape) > _MOST_DIMS:
            what = f"{tensor.name!r} is {kind_text(tensor.dtype, tensor.shape)}"
            _refuse(what, where, "convert a model of real numbers")
        if any(dim < 0 for dim in tensor.shape):
            what = f"{tensor.name!r} has the shape {tensor.shape}, which is not static"
            _refuse(what, where, "convert it with the static shapes of a bucket")
        if tensor.size < tensor.nbytes:
            what = f"{tensor.name!r} has {tensor.size} bytes, its shape and type {tensor.nbytes}"
            _refuse(what, where, "convert it again")
    total = sum(tensor.nbytes for tensor in (*inputs, *outputs))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if total > memory:
        what = f"its inputs and outputs take {total:,} bytes, and this machine has {memory:,}"
        _refuse(what, where, "convert it with a smaller bucket")


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
            _refuse(
                f"its input {tensor.name!r} is {kind_text(*wanted)}, not {kind_text(*given)}", where
            )
        if array.nbytes != tensor.size:
            what = f"its input {tensor.name!r} takes {tensor.size} bytes, not {array.nbytes}"
            _refuse(what, where)
        arrays.append(array)
    return arrays


def kind_text(dtype: str, shape: Sequence[int]) -> str:
    """A type and a shape, such as ``float32 (1, 8)``."""
    return printable(f"{dtype} {tuple(shape)}")


def _refuse(what: str, where: str, fix: str = "") -> NoReturn:
    fail("QF211", what, where=where, fix=fix or "give the .om of this run and of its first bucket")
