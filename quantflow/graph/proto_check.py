# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""What an ONNX file may hold that nothing can read: no text, no offsets, sparse tensors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from quantflow.artifacts.array_files import shortened
from quantflow.errors import fail

_DIGITS = 18
"""Most digits of a number of bytes: more are beyond int64."""

_NAME = 255
"""Most bytes of a file's name."""


def check_proto(model: onnx.ModelProto, path: Path) -> None:
    """Raise QF201 for what cannot be read, before anything stumbles over it.

    Args:
        model: as it was parsed; large tensors are not touched.
        path: of its file.
    """
    for what, fix in _problems(model):
        fail("QF201", f"not a readable ONNX model: {what}", where=str(path), fix=fix)


def _problems(message: Message) -> Iterator[tuple[str, str]]:
    """What is wrong with a message and those in it, each with what to do."""
    if isinstance(message, onnx.TensorProto):
        yield from _tensor_problems(message)
        return
    if isinstance(message, onnx.SparseTensorProto):
        name = message.values.name
        yield f"{name!r} is a sparse tensor", "export the model with dense weights"
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in [value] if isinstance(value, Message) else value:
                yield from _problems(part)
        elif field.type == FieldDescriptor.TYPE_STRING:
            for text in [value] if isinstance(value, str | bytes) else value:
                yield from _text_problems(field.full_name, text)


def _text_problems(field: str, text: Any) -> Iterator[tuple[str, str]]:
    if isinstance(text, bytes):  # which protobuf gives where text cannot be decoded
        what = f"{field.removeprefix('onnx.')} is not UTF-8 text: {text[:40]!r}"
        yield what, "check how the file came about"


def _tensor_problems(tensor: onnx.TensorProto) -> Iterator[tuple[str, str]]:
    """The same of a tensor, whose fields are not listed, since that would copy its values."""
    yield from _text_problems("TensorProto.name", tensor.name)
    yield from _text_problems("TensorProto.doc_string", tensor.doc_string)
    for entry in tensor.external_data:
        yield from _problems(entry)
        if not _may_be(entry.key, entry.value):
            name, value = (shortened(repr(x)) for x in (tensor.name, entry.value))
            what = f"{entry.key} of the external data of {name} is {value}"
            yield what, "export the model again"


def _may_be(key: str, value: str | bytes) -> bool:
    """Whether a part of where external data lies can be one: a path, or a number of bytes."""
    if key in ("offset", "length"):
        return value.isdigit() and value.isascii() and len(value) <= _DIGITS
    if key == "location" and isinstance(value, str):
        return "\0" not in value and all(len(os.fsencode(x)) <= _NAME for x in value.split("/"))
    return True
