"""Inputs and outputs in the model definition of an .om file.

TensorDescriptor is {name 1, dtype 2, shape 3 {dim 1}, layout 4}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quantflow.artifacts.om_description import OmTensor
from quantflow.ascend.om_attributes import check_number, text
from quantflow.ascend.protobuf_wire import FieldBudget, fields, int64, packed

MAX_RANK: Final = 64

_DTYPES: Final = {
    0: "undefined", 1: "float32", 2: "float16", 3: "int8", 4: "uint8", 5: "int16", 6: "uint16",
    7: "int32", 8: "int64", 9: "uint32", 10: "uint64", 11: "bool", 12: "float64", 13: "string",
    27: "bfloat16",
}  # fmt: skip


def read_tensor(
    message: memoryview, budget: FieldBudget, name: str, *, own_name: bool = True
) -> OmTensor:
    """Read a TensorDescriptor message.

    Args:
        message: its bytes.
        budget: of the file.
        name: holds where it has none, or where that is not wanted.
        own_name: whether it is.

    Raises:
        ValueError: in words, when it is damaged or has more than `MAX_RANK` axes.
    """
    dtype, layout, shape = 0, "", list[int]()
    given = name
    for number, value in fields(message, budget):
        if number == 1 and own_name:
            name = text(value, name) or given
        elif number == 2 and isinstance(value, int):
            dtype = value & 0xFFFFFFFF
        elif number == 3 and isinstance(value, memoryview):
            for size in _dims(value, budget):
                shape.append(size)
                check_number(shape, MAX_RANK, "axes in a shape")
        elif number == 4:
            layout = text(value, layout)
    words = _DTYPES.get(dtype, f"dtype {dtype}")
    return OmTensor(name=name, dtype=words, shape=tuple(shape), layout=layout)


def _dims(shape: memoryview, budget: FieldBudget) -> Iterator[int]:
    """ShapeDef.dim, packed or not."""
    for number, value in fields(shape, budget):
        if number == 1 and isinstance(value, int):
            yield int64(value)
        elif number == 1 and isinstance(value, memoryview):
            yield from map(int64, packed(value, budget))
