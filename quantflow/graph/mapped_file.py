"""An ONNX file of any size read without its weights, which stay in it and are mapped when used.

protobuf reads a message in full. Here its wire format is walked instead, field by field down to the
`raw_data` of the initializers, and what is parsed holds references to the file in their place.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from quantflow.artifacts.weight_file import SMALL_BYTES

_MODEL_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_GRAPH_INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_TENSOR_RAW_DATA = onnx.TensorProto.RAW_DATA_FIELD_NUMBER
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message: its number, where it starts, where its content starts, where it ends.

    The content of a field that has no length is all of it.
    """

    number: int
    start: int
    content: int
    end: int
    has_length: bool


def read_mapped(path: Path) -> onnx.ModelProto:
    """Read a model; large initializers become references to where their bytes lie in the file.

    Raises:
        OSError: when the file cannot be read.
        DecodeError: when it is no protobuf message.
    """
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        rest, graphs = bytearray(), list[_Field]()
        for field in _fields(data, 0, len(data)):
            if field.number == _MODEL_GRAPH and field.has_length:
                graphs.append(field)
            else:
                rest += data[field.start : field.end]
        model = onnx.ModelProto.FromString(bytes(rest))
        for field in graphs:
            model.graph.MergeFrom(_graph(data, field, path.name))
    return model


def _graph(data: mmap.mmap, graph: _Field, location: str) -> onnx.GraphProto:
    rest, tensors = bytearray(), list[onnx.TensorProto]()
    for field in _fields(data, graph.content, graph.end):
        if field.number == _GRAPH_INITIALIZER and field.has_length:
            tensors.append(_tensor(data, field, location))
        else:
            rest += data[field.start : field.end]
    found = onnx.GraphProto.FromString(bytes(rest))
    found.initializer.extend(tensors)
    return found


def _tensor(data: mmap.mmap, tensor: _Field, location: str) -> onnx.TensorProto:
    rest, raw = bytearray(), None
    for field in _fields(data, tensor.content, tensor.end):
        large = field.end - field.content > SMALL_BYTES
        if field.number == _TENSOR_RAW_DATA and field.has_length and large:
            raw = field
        else:
            rest += data[field.start : field.end]
    found = onnx.TensorProto.FromString(bytes(rest))
    if raw is not None and found.data_location != onnx.TensorProto.EXTERNAL:
        found.data_location = onnx.TensorProto.EXTERNAL
        place = {"location": location, "offset": raw.content, "length": raw.end - raw.content}
        for key, value in place.items():
            found.external_data.add(key=key, value=str(value))
    return found


def _fields(data: mmap.mmap, position: int, end: int) -> Iterator[_Field]:
    """The fields of the message between two positions."""
    while position < end:
        start = position
        tag, position = _varint(data, position, end)
        kind, has_length = tag & 7, False
        if kind == _LENGTH:
            size, position = _varint(data, position, end)
            content, position, has_length = position, position + size, True
        elif kind in (_FIXED32, _FIXED64):
            content, position = start, position + (4 if kind == _FIXED32 else 8)
        elif kind == _VARINT:
            content, position = start, _varint(data, position, end)[1]
        else:
            raise DecodeError(f"wire type {kind} at byte {start}")
        if position > end:
            raise DecodeError(f"the field at byte {start} ends beyond its message")
        yield _Field(tag >> 3, start, content, position, has_length)


def _varint(data: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    """A variable-length integer and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            break
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
    raise DecodeError(f"no integer ends at byte {position}")
