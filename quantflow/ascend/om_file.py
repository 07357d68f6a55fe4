"""The header of an .om file: is it one, is it complete, and for which chip.

Little endian, 256 bytes, then a partition table and the partitions. Field offsets are those of the
open sources of CANN's graph engine (August 2026).
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from quantflow.ascend.protobuf_wire import fields
from quantflow.errors import fail

MAGIC: Final = b"IMOD"
HEADER_SIZE: Final = 256

_START: Final = struct.Struct("<4sII")  # magic, header size, version
_LEGACY_LENGTH: Final = struct.Struct("<I")
_MODEL_LENGTH: Final = struct.Struct("<Q")
_PARTITION: Final = struct.Struct("<I4xQQ")  # type, offset, size
_LEGACY_PARTITION: Final = struct.Struct("<III")
_MODEL_DEF: Final = 0
"""Partition type of the ModelDef message."""
_ATTRIBUTES: Final = 11
"""ModelDef.attr, a map from string to AttrDef; AttrDef.s is field 2."""


@dataclass(frozen=True, slots=True)
class OmHeader:
    """What the head of an .om file says.

    Attributes:
        version: of the file format.
        name: of the model.
        platform_version: of the compiler's platform.
        length: bytes after the header.
        encrypted: whether the partitions are encrypted.
        model_num: number of models inside.
        dynamic_shapes: whether it takes dynamic shapes.
        soc_version: chip it was compiled for; None where the file does not say.
    """

    version: int
    name: str
    platform_version: str
    length: int
    encrypted: bool
    model_num: int
    dynamic_shapes: bool
    soc_version: str | None


def read_om_header(path: Path) -> OmHeader:
    """Read the header of an .om file.

    Raises:
        QuantflowError: QF702 when the file is not an .om file, or is not complete.
    """
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            return _read(path, stream, size)
    except OSError as error:
        _invalid(path, f"it cannot be read: {error.strerror}")


def _read(path: Path, stream: BinaryIO, size: int) -> OmHeader:
    head = stream.read(HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        _invalid(path, f"it has {len(head)} bytes, and the header alone has {HEADER_SIZE}")
    magic, header_size, version = _START.unpack_from(head, 0)
    if magic != MAGIC:
        _invalid(path, f"it starts with {magic!r}, not {MAGIC!r}")
    if header_size != HEADER_SIZE:
        _invalid(path, f"its header size is {header_size}, not {HEADER_SIZE}")
    model_length: int = _MODEL_LENGTH.unpack_from(head, 184)[0]
    length: int = model_length or _LEGACY_LENGTH.unpack_from(head, 76)[0]
    if length != size - HEADER_SIZE:
        found = size - HEADER_SIZE
        _invalid(path, f"its header announces {length} bytes and {found} follow")
    encrypted = head[80] == 1
    legacy = model_length == 0
    return OmHeader(
        version=version,
        name=_text(head[84:116]),
        platform_version=_text(head[160:180]),
        length=length,
        encrypted=encrypted,
        model_num=struct.unpack_from("<I", head, 156)[0],
        dynamic_shapes=head[193] == 1,
        soc_version=None if encrypted else _soc_version(stream, size, legacy=legacy),
    )


def _soc_version(stream: BinaryIO, size: int, *, legacy: bool) -> str | None:
    """The attribute of ModelDef; None where it is absent or the tables cannot be followed."""
    try:
        model_def = _model_def(stream, size, legacy=legacy)
        return None if model_def is None else _string_attribute(model_def, b"soc_version")
    except (ValueError, struct.error):
        return None


def _model_def(stream: BinaryIO, size: int, *, legacy: bool) -> memoryview | None:
    """The bytes of the ModelDef partition; the stream stands at the partition table."""
    entry = _LEGACY_PARTITION if legacy else _PARTITION
    count: int = struct.unpack("<I4x" if not legacy else "<I", stream.read(4 if legacy else 8))[0]
    payload = stream.tell() + count * entry.size
    if payload > size:
        return None
    for _ in range(count):
        kind, offset, length = entry.unpack(stream.read(entry.size))
        if kind == _MODEL_DEF:
            if payload + offset + length > size:
                return None
            stream.seek(payload + offset)
            return memoryview(stream.read(length))
    return None


def _string_attribute(model_def: memoryview, name: bytes) -> str | None:
    for number, attribute in fields(model_def):
        if number != _ATTRIBUTES or isinstance(attribute, int):
            continue
        entry = dict(fields(attribute))
        key, value = entry.get(1), entry.get(2)
        if not isinstance(key, memoryview) or not isinstance(value, memoryview):
            continue
        text = dict(fields(value)).get(2) if bytes(key) == name else None
        if isinstance(text, memoryview):
            return bytes(text).decode(errors="replace")
    return None


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace")


def _invalid(path: Path, why: str) -> NoReturn:
    fail("QF702", f"not a complete .om file: {why}", where=path.name, fix="convert it again")
