"""What an .om file says of itself, as `quantflow show FILE.om --json` prints it."""

from __future__ import annotations

from quantflow.artifacts.record import Record


class OmPartition(Record):
    """An entry of the partition table.

    Attributes:
        type: its number.
        name: what that type holds, ``other`` where it is not known.
        offset: bytes from the start of the file.
        size: bytes.
    """

    type: int
    name: str
    offset: int
    size: int


class OmTensor(Record):
    """An input or an output.

    Attributes:
        name: of an input, its own; of an output without one, where it comes from (``node:index``).
        dtype: in words, such as ``float16``.
        shape: size of every axis, -1 for a free one; empty for a scalar.
        layout: such as ``NCHW`` or ``ND``.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str


class OmModel(Record):
    """The model definition.

    Attributes:
        name, version: of the definition.
        attributes: those that hold text, an integer or a truth value.
        op_types: number of operators by type, in the first graph.
        inputs: in the order in which they are fed.
        outputs: in the order of the file.
    """

    name: str
    version: int
    attributes: dict[str, str | int | bool]
    op_types: dict[str, int]
    inputs: tuple[OmTensor, ...]
    outputs: tuple[OmTensor, ...]


class OmDescription(Record):
    """Header, partition table and model definition of an .om file.

    Attributes:
        file: its name.
        size: bytes.
        version: of the file format.
        name: of the model, cut to 32 bytes by the format.
        platform_version: of the compiler's platform.
        encrypted, checksum: whether the partitions are encrypted, and whether it has a checksum.
        model_type, model_num: kind and number of models inside, as the file has them.
        needs_os_cpu_check: whether it runs only on the operating system and CPU that it names.
        dynamic_shapes: whether it takes dynamic shapes.
        soc_version: chip it was compiled for, None where that is not said.
        partitions: those of the first model.
        model: None when it was not read.
        not_read: why the table or the model definition was not read, or empty.
    """

    file: str
    size: int
    version: int
    name: str
    platform_version: str
    encrypted: bool
    checksum: bool
    model_type: int
    model_num: int
    needs_os_cpu_check: bool
    dynamic_shapes: bool
    soc_version: str | None
    partitions: tuple[OmPartition, ...]
    model: OmModel | None
    not_read: str
