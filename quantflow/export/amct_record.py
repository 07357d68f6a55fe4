"""The AMCT record: our factors as the text proto that `amct_onnx.convert_model` reads.

A file holds one message a layer, keyed by the name of its node::

    record {
      key: "encoder.layer.0.attention.self.query"
      value { scale_d: 0.0039 offset_d: -128 scale_w: 0.0031 offset_w: 0 }
    }

`scale_d` is the activation's scale itself, where AscendQuant holds its reciprocal. `scale_w` and
`offset_w` repeat, once an output channel; an AveragePool has none. Products of two activations,
which have no such record, are left out. Numbers are the shortest that read back as the same
float32.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from quantflow.artifacts.export_record import LayerFactors
from quantflow.artifacts.model_record import ModelRecord
from quantflow.errors import fail
from quantflow.export.text_proto import Field, excerpt, parse_text_proto, quote
from quantflow.numerics.quantize import QMAX, QMIN

_NUMBER = re.compile(r"-?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,9})")
"""Decimal, without a leading zero, which protobuf reads as octal."""


@dataclass(frozen=True, slots=True)
class AmctEntry:
    """Factors of one layer as an AMCT record holds them; scales are float32 values."""

    scale_d: float
    offset_d: int
    scale_w: tuple[float, ...]
    offset_w: tuple[int, ...]


def amct_entries(record: ModelRecord, factors: Sequence[LayerFactors]) -> dict[str, AmctEntry]:
    """The entries of all INT8 layers that have one, by node name, in the order of the factors."""
    layers = {layer.name: layer for layer in record.layers}
    entries = dict[str, AmctEntry]()
    for entry in factors:
        layer = layers[entry.layer]
        if entry.scale_d is None or entry.offset_d is None or layer.second_input:
            continue
        scale_w = entry.scale_w if layer.weight else ()
        entries[layer.node] = AmctEntry(entry.scale_d, entry.offset_d, scale_w, (0,) * len(scale_w))
    return entries


def write_record(record: ModelRecord, factors: Sequence[LayerFactors]) -> str:
    """Text of the AMCT record of all INT8 layers.

    Raises:
        QuantflowError: QF545 when the text does not read back as the same factors, a bug.
    """
    entries = amct_entries(record, factors)
    text = "".join(_message(key, entry) for key, entry in entries.items())
    if read_record(text) != entries:
        fail("QF545", "the AMCT record does not read back as what was written")
    return text


def read_record(text: str) -> dict[str, AmctEntry]:
    """Read an AMCT record: factors by node name, in the order of the file.

    Raises:
        QuantflowError: QF545 when the text is not such a record.
    """
    entries = dict[str, AmctEntry]()
    for field in parse_text_proto(text):
        if field.name != "record" or isinstance(field.value, str):
            _refuse(f"found {excerpt(field.name)} where a record should be")
        key, entry = _read_entry(field.value)
        if key in entries:
            _refuse(f"layer {excerpt(key)} stands twice")
        entries[key] = entry
    return entries


def _message(key: str, entry: AmctEntry) -> str:
    lines = [
        "record {",
        f"  key: {quote(key)}",
        "  value {",
        f"    scale_d: {np.float32(entry.scale_d)!s}",
        f"    offset_d: {entry.offset_d}",
        *(f"    scale_w: {np.float32(scale)!s}" for scale in entry.scale_w),
        *(f"    offset_w: {offset}" for offset in entry.offset_w),
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _read_entry(fields: Sequence[Field]) -> tuple[str, AmctEntry]:
    key = _scalars(fields, "key")
    values = [field.value for field in fields if field.name == "value"]
    if len(key) != 1 or len(values) != 1 or isinstance(values[0], str):
        _refuse("a record needs one key and one value")
    value = values[0]
    scale_d, offset_d = _scalars(value, "scale_d"), _scalars(value, "offset_d")
    scale_w, offset_w = _scalars(value, "scale_w"), _scalars(value, "offset_w")
    if len(scale_d) != 1 or len(offset_d) != 1 or len(scale_w) != len(offset_w):
        _refuse(f"layer {excerpt(key[0])} lacks a factor")
    return key[0], AmctEntry(
        scale_d=_scale(scale_d[0]),
        offset_d=_offset(offset_d[0]),
        scale_w=tuple(_scale(text) for text in scale_w),
        offset_w=tuple(_offset(text) for text in offset_w),
    )


def _scalars(fields: Sequence[Field], name: str) -> list[str]:
    values = [field.value for field in fields if field.name == name]
    return [value for value in values if isinstance(value, str)]


def _scale(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        _refuse(f"{excerpt(text)} is not a number")
    with np.errstate(over="ignore"):
        value = float(np.float32(float(text)))
    if not 0 < value < float("inf"):
        _refuse(f"{excerpt(text)} is not a positive scale")
    return value


def _offset(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        _refuse(f"{excerpt(text)} is not an integer")
    value = int(text)
    if not QMIN <= value <= QMAX:
        _refuse(f"offset {value} is outside int8")
    return value


def _refuse(what: str) -> NoReturn:
    fail("QF545", f"not an AMCT record: {what}")
