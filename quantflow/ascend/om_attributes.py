"""Attributes and text in the model definition of an .om file.

A map's entry is {key 1, value 2 AttrDef}; AttrDef is one of {string 2, int 3, bool 5, ... to 16}.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

from quantflow.ascend.protobuf_wire import FieldBudget, Value, fields, int64
from quantflow.printable import printable

Attribute = str | int | bool

LONGEST_NAME: Final = 1000
"""Characters of a name that are kept."""
LONGEST_TEXT: Final = 8000
"""Characters of an attribute that are kept."""

_MESSAGES: Final = {1, 7, 10, 11, 12, 13, 14, 16}
"""Numbers of the fields of AttrDef that hold lists, bytes, tensors and the like."""
_FLOAT: Final = 4
_DTYPE: Final = 15


def read_entry(entry: memoryview, budget: FieldBudget) -> tuple[str, Attribute | None]:
    """Name and value of an attribute in a map; None for a value of another type.

    Raises:
        ValueError: as `protobuf_wire.fields`.
    """
    name, attribute = "", None
    for number, value in fields(entry, budget):
        if number == 1:
            name = text(value, name)
        elif number == 2 and isinstance(value, memoryview):
            attribute = _read_attribute(value, attribute, budget)
    return name, attribute


def _read_attribute(
    message: memoryview, attribute: Attribute | None, budget: FieldBudget
) -> Attribute | None:
    """The value in an AttrDef message, `attribute` where it has none."""
    for number, value in fields(message, budget):
        if number == 2 and isinstance(value, memoryview):
            attribute = text(value, longest=LONGEST_TEXT)
        elif number == 3 and isinstance(value, int):
            attribute = int64(value)
        elif number == 5 and isinstance(value, int):
            attribute = bool(value)
        elif _is_of_another_kind(number, value):
            attribute = None
    return attribute


def _is_of_another_kind(number: int, value: Value) -> bool:
    if isinstance(value, memoryview):
        return number in _MESSAGES
    if isinstance(value, bytes):
        return number == _FLOAT and len(value) == 4
    return number == _DTYPE


def text(value: Value, otherwise: str = "", longest: int = LONGEST_NAME) -> str:
    """Text that is fit to be printed, whatever the bytes.

    Args:
        value: of the field.
        otherwise: what counts when it does not hold bytes.
        longest: characters that are kept.
    """
    if not isinstance(value, memoryview):
        return otherwise
    raw = bytes(value[: 4 * longest + 4])  # characters of UTF-8 have 4 bytes at most
    return printable(raw.decode(errors="replace"), longest)[:longest]


def check_number(found: Sized, most: int, what: str) -> None:
    """Stop when there are too many.

    Raises:
        ValueError: in words.
    """
    if len(found) > most:
        raise ValueError(f"it has more than {most} {what}")
