"""A bounds-checked reader of the protobuf wire format, for files whose schema is not at hand.

See https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_FIELDS: Final = 4_000_000
"""Fields that one `FieldBudget` allows: some seconds of work."""

Value = int | memoryview | bytes
"""What a field holds: a varint, 0 to 2^64-1; what is length-delimited; 4 or 8 fixed bytes."""

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_LONGEST_VARINT: Final = 10
_UINT64: Final = 2**64 - 1
_LARGEST_KEY: Final = 2**32 - 1
"""Field numbers have 29 bits, kinds 3."""


class FieldBudget:
    """How many fields may still be read, so that a hostile file cannot take any time it likes."""

    __slots__ = ("left",)

    def __init__(self, fields: int = MAX_FIELDS) -> None:
        self.left = fields

    def spend(self) -> None:
        """Take one field.

        Raises:
            ValueError: when there is none left.
        """
        self.left -= 1
        if self.left < 0:
            raise ValueError("it has more fields than are read")


def fields(message: memoryview, budget: FieldBudget | None = None) -> Iterator[tuple[int, Value]]:
    """The fields of a message: number and value. Nothing that is length-delimited is copied.

    Args:
        message: its bytes.
        budget: of the file, shared by all messages in it; one of its own when None.

    Raises:
        ValueError: when the message ends early, is no protobuf, holds groups, which proto3 lacks,
            or has more fields than the budget.
    """
    budget = budget or FieldBudget()
    position = 0
    while position < len(message):
        budget.spend()
        key, position = varint(message, position)
        number, kind = key >> 3, key & 7
        if not number or key > _LARGEST_KEY:
            raise ValueError(f"field number {number} at byte {position}")
        if kind == _VARINT:
            value, position = varint(message, position)
            yield number, value
            continue
        if kind == _BYTES:
            length, position = varint(message, position)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {position}")
        if length > len(message) - position:
            raise ValueError(f"field {number} is longer than its message")
        value = message[position : position + length]
        yield number, value if kind == _BYTES else bytes(value)
        position += length


def packed(values: memoryview, budget: FieldBudget) -> Iterator[int]:
    """The varints of a packed repeated field.

    Raises:
        ValueError: when the last one is not finished, or there are more than the budget.
    """
    position = 0
    while position < len(values):
        budget.spend()
        value, position = varint(values, position)
        yield value


def varint(message: memoryview, position: int) -> tuple[int, int]:
    """An integer, 0 to 2^64-1, and the position behind it; bits beyond 64 are dropped.

    Raises:
        ValueError: when it does not end within 10 bytes and the message.
    """
    if position < len(message) and message[position] < 0x80:  # most are this short
        return message[position], position + 1
    value = 0
    for index, byte in enumerate(message[position : position + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & _UINT64, position + index + 1
    raise ValueError(f"unfinished number at byte {position}")


def int64(value: int) -> int:
    """A varint as the signed integer that it stands for (``int64``, negative ``int32``, enums)."""
    return value - 2**64 if value >= 2**63 else value
