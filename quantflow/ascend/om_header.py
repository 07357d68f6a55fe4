"""The header of an .om file: 256 bytes, little endian.

Field offsets are those of the open sources of CANN's graph engine (August 2026).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from quantflow.errors import fail
from quantflow.printable import printable

MAGIC: Final = b"IMOD"
HEADER_SIZE: Final = 256

_START: Final = struct.Struct("<4sII")  # magic, header size, version
_LEGACY_LENGTH: Final = struct.Struct("<I")
_MODEL_LENGTH: Final = struct.Struct("<Q")
_MODEL_NUM: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class OmHeader:
    """What the head of an .om file says.

    Attributes:
        version: of the file format.
        name: of the model.
        platform_version: of the compiler's platform.
        length: bytes after the header.
        encrypted: whether the partitions are encrypted.
        checksum: whether the file says that it has a checksum.
        model_type: 0 for a model in the graph engine's representation.
        model_num: number of models inside, as the file has it.
        needs_os_cpu_check: whether it runs only on the operating system and CPU that it names.
        dynamic_shapes: whether it takes dynamic shapes.
        legacy: whether lengths and offsets have 32 bits, as in older files.
        soc_version: chip it was compiled for; None where the file does not say.
    """

    version: int
    name: str
    platform_version: str
    length: int
    encrypted: bool
    checksum: bool
    model_type: int
    model_num: int
    needs_os_cpu_check: bool
    dynamic_shapes: bool
    legacy: bool
    soc_version: str | None


@contextmanager
def open_om(path: Path) -> Generator[BinaryIO]:
    """Open a regular file.

    Raises:
        QuantflowError: QF702 when it cannot be read, or is a pipe or the like, which never ends.
    """
    try:
        if path.exists() and not path.is_file():
            refuse(path, "it is no regular file")
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        refuse(path, f"it cannot be read: {error.strerror}")


def parse_header(path: Path, stream: BinaryIO) -> OmHeader:
    """Read the header, without the chip, which stands elsewhere; the stream is left behind it.

    Raises:
        QuantflowError: QF702 when the file is not an .om file, or is not complete.
    """
    size = os.fstat(stream.fileno()).st_size
    head = stream.read(HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        refuse(path, f"it has {len(head)} bytes, and the header alone has {HEADER_SIZE}")
    magic, header_size, version = _START.unpack_from(head, 0)
    if magic != MAGIC:
        refuse(path, f"it starts with {magic!r}, not {MAGIC!r}")
    if header_size != HEADER_SIZE:
        refuse(path, f"its header size is {header_size}, not {HEADER_SIZE}")
    model_length: int = _MODEL_LENGTH.unpack_from(head, 184)[0]
    length: int = model_length or _LEGACY_LENGTH.unpack_from(head, 76)[0]
    if length != size - HEADER_SIZE:
        found = size - HEADER_SIZE
        refuse(path, f"its header announces {length} bytes and {found} follow")
    return OmHeader(
        version=version,
        name=_text(head[84:116]),
        platform_version=_text(head[160:180]),
        length=length,
        encrypted=head[80] == 1,
        checksum=head[81] == 1,
        model_type=head[82],
        model_num=_MODEL_NUM.unpack_from(head, 156)[0],
        needs_os_cpu_check=head[192] == 1,
        dynamic_shapes=head[193] == 1,
        legacy=model_length == 0,
        soc_version=None,
    )


def refuse(path: Path, why: str) -> NoReturn:
    """Stop because of a file that is not an .om file, or not a whole one."""
    fail("QF702", f"not a complete .om file: {why}", where=path.name, fix="convert it again")


def _text(raw: bytes) -> str:
    return printable(raw.split(b"\0", 1)[0].decode(errors="replace"))
