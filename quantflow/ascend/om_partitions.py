"""The partition table of an .om file, which follows the header, and its first kind of partition.

Table: u32 count, 4 bytes of padding, then {u32 type, 4 bytes of padding, u64 offset, u64 size}
each; in older files u32 count, then {u32 type, u32 offset, u32 size}. Offsets start behind the
table. A file of several models has a table a model; the first one is read.
"""

from __future__ import annotations

import os
import struct
from itertools import pairwise
from typing import BinaryIO, Final

from quantflow.artifacts.om_description import OmPartition
from quantflow.ascend.om_header import HEADER_SIZE, OmHeader

MODEL_DEFINITION: Final = 0
"""Type of the partition that holds the ModelDef message."""
MAX_PARTITIONS: Final = 1024
MAX_MODEL_DEFINITION: Final = 2**28
"""Bytes of the largest model definition that is read into memory."""

_COUNT: Final = struct.Struct("<I4x")
_LEGACY_COUNT: Final = struct.Struct("<I")
_ENTRY: Final = struct.Struct("<I4xQQ")  # type, offset, size
_LEGACY_ENTRY: Final = struct.Struct("<III")
_NAMES: Final = {
    0: "model definition",
    1: "weights",
    2: "tasks",
    3: "kernels",
    4: "AI CPU kernels",
    5: "shared libraries",
}


def read_partitions(stream: BinaryIO, header: OmHeader) -> tuple[OmPartition, ...]:
    """The first partition table, checked against the size of the file.

    Raises:
        ValueError: in words, when a partition lies outside the file or two overlap.
    """
    size = os.fstat(stream.fileno()).st_size
    count_layout = _LEGACY_COUNT if header.legacy else _COUNT
    layout = _LEGACY_ENTRY if header.legacy else _ENTRY
    stream.seek(HEADER_SIZE)
    count: int = count_layout.unpack(_take(stream, count_layout.size))[0]
    if count > MAX_PARTITIONS:
        raise ValueError(f"its table has {count} partitions, more than {MAX_PARTITIONS}")
    table = _take(stream, count * layout.size)
    start = HEADER_SIZE + count_layout.size + len(table)
    partitions = tuple(
        OmPartition(
            type=kind, name=_NAMES.get(kind, "other"), offset=start + offset, size=partition_size
        )
        for kind, offset, partition_size in layout.iter_unpack(table)
    )
    _check_places(partitions, size)
    return partitions


def model_definition(stream: BinaryIO, partitions: tuple[OmPartition, ...]) -> memoryview:
    """The bytes of the ModelDef message.

    Raises:
        ValueError: in words, when there is none, or it is larger than `MAX_MODEL_DEFINITION`.
    """
    found = next((x for x in partitions if x.type == MODEL_DEFINITION), None)
    if found is None:
        raise ValueError("it has no partition with a model definition")
    if found.size > MAX_MODEL_DEFINITION:
        limit = f"more than the {MAX_MODEL_DEFINITION} that are read"
        raise ValueError(f"its model definition has {found.size} bytes, {limit}")
    stream.seek(found.offset)
    return memoryview(_take(stream, found.size))


def _check_places(partitions: tuple[OmPartition, ...], size: int) -> None:
    for partition in partitions:
        if partition.offset + partition.size > size:
            where = f"{partition.offset} + {partition.size}"
            raise ValueError(f"a partition of type {partition.type} ends at {where}, behind {size}")
    ordered = sorted((x for x in partitions if x.size), key=lambda x: x.offset)
    for one, other in pairwise(ordered):
        if one.offset + one.size > other.offset:
            raise ValueError(f"partitions of types {one.type} and {other.type} overlap")


def _take(stream: BinaryIO, size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise ValueError(f"it ends after {len(found)} of {size} bytes")
    return found
