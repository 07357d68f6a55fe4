"""Whether an .om file is complete, and for the right chip; read in parts, whatever its size.

It says what `om_file` says, in the terms of the hand-over folder, which it travels with, so: Python
3.7 and the standard library only. Layout: `om_file`.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

HEADER_SIZE = 256
LARGEST_MODEL_DEF = 256 << 20
"""Bytes of the partition that names the chip; a larger one is not looked into."""
MOST_PARTITIONS = 4096

_PART = 1 << 20


def om_problem(path: Path, soc_version: str) -> str:
    """What is wrong with an .om file, or an empty string.

    Args:
        path: of the file.
        soc_version: the chip that it was to be compiled for; one that the file does not name
            counts as right.
    """
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            return _problem(stream, size, soc_version)
    except OSError as error:
        return f"the .om file cannot be read: {error.strerror}"


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for part in iter(lambda: stream.read(_PART), b""):
            digest.update(part)
    return digest.hexdigest()


def is_plain_file(path: Path) -> bool:
    """Whether it is a file itself: what a link leads to may change, or lie anywhere."""
    return path.is_file() and not path.is_symlink()


def changed_since(path: Path, size: object, sha256: object) -> bool:
    """Whether an .om file is not, or not any more, the one of that size and SHA-256.

    Args:
        path: of the file.
        size, sha256: as they were when it was verified.
    """
    try:
        if not is_plain_file(path) or path.stat().st_size != size:
            return True
        return file_sha256(path) != sha256
    except OSError:
        return True


def changed_files(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """Files that are missing or have another SHA-256.

    Args:
        folder: that their names start from.
        digests: SHA-256 by name.
    """
    return [
        name
        for name, digest in digests.items()
        if not (folder / name).is_file() or file_sha256(folder / name) != digest
    ]


def _problem(stream: BinaryIO, size: int, soc_version: str) -> str:
    head = stream.read(HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return f"the .om file has {len(head)} bytes, and its header alone has {HEADER_SIZE}"
    magic, header_size = struct.unpack_from("<4sI", head, 0)
    if magic != b"IMOD":
        return f"the .om file starts with {magic!r}, not b'IMOD'"
    if header_size != HEADER_SIZE:
        return f"the header size of the .om file is {header_size}, not {HEADER_SIZE}"
    (long_length,) = struct.unpack_from("<Q", head, 184)
    (legacy_length,) = struct.unpack_from("<I", head, 76)
    length = long_length or legacy_length
    if length != size - HEADER_SIZE:
        return f"the .om file announces {length} bytes and {size - HEADER_SIZE} follow its header"
    if head[80] == 1:  # encrypted: it does not tell its chip
        return ""
    try:
        found = _soc_version(stream, size, legacy=long_length == 0)
    except (ValueError, struct.error):  # what cannot be followed does not tell a chip either
        return ""
    if found is not None and found.lower() != soc_version.lower():
        return f"the .om file is for {found}, not {soc_version}"
    return ""


def _soc_version(stream: BinaryIO, size: int, *, legacy: bool) -> str | None:
    """The attribute of ModelDef; the stream stands at the partition table."""
    entry = struct.Struct("<III" if legacy else "<I4xQQ")
    head = stream.read(4 if legacy else 8)
    (count,) = struct.unpack_from("<I", head, 0)
    payload = stream.tell() + count * entry.size
    if payload > size or count > MOST_PARTITIONS:
        return None
    for _ in range(count):
        kind, offset, length = entry.unpack(stream.read(entry.size))
        if kind != 0:
            continue
        if payload + offset + length > size or length > LARGEST_MODEL_DEF:
            return None
        stream.seek(payload + offset)
        return _attribute(memoryview(stream.read(length)), b"soc_version")
    return None


def _attribute(model_def: memoryview, name: bytes) -> str | None:
    """ModelDef.attr (11) is a map from string (1) to AttrDef (2), whose text is field 2."""
    for number, attribute in _fields(model_def):
        if number != 11 or isinstance(attribute, int):
            continue
        entry = dict(_fields(attribute))
        key, value = entry.get(1), entry.get(2)
        if not isinstance(key, memoryview) or not isinstance(value, memoryview):
            continue
        text = dict(_fields(value)).get(2) if bytes(key) == name else None
        if isinstance(text, memoryview):
            return bytes(text).decode("utf-8", "replace")
    return None


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of every field of a protobuf message."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, position = _varint(message, position)
            yield number, value
            continue
        if kind == 2:
            length, position = _varint(message, position)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError("no such wire type")
        if length > len(message) - position:
            raise ValueError("longer than its message")
        yield number, message[position : position + length]
        position += length


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(message[position : position + 10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise ValueError("unfinished number")
