"""An .om file: is it one, is it complete, for which chip, and what is in it.

Only the header, the partition table and the model definition are read, however large the file is.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import BinaryIO

from quantflow.artifacts.om_description import OmDescription, OmModel, OmPartition
from quantflow.ascend.om_header import HEADER_SIZE, OmHeader, open_om, parse_header
from quantflow.ascend.om_model import read_model, string_attribute
from quantflow.ascend.om_partitions import model_definition, read_partitions


def read_om_header(path: Path) -> OmHeader:
    """Read the header of an .om file, and the chip from its model definition.

    Raises:
        QuantflowError: QF702 when the file is not an .om file, or is not complete.
    """
    with open_om(path) as stream:
        header = parse_header(path, stream)
        return replace(header, soc_version=_soc_version(stream, header))


def describe_om(path: Path) -> OmDescription:
    """Read all that an .om file says of itself.

    A table or a model definition that cannot be followed is told in `OmDescription.not_read`.

    Raises:
        QuantflowError: QF702 when the file is not an .om file, or is not complete.
    """
    with open_om(path) as stream:
        header = parse_header(path, stream)
        partitions, model, not_read = _contents(stream, header)
    soc_version = model.attributes.get("soc_version") if model else None
    said = {name: value for name, value in asdict(header).items() if name not in _NOT_DESCRIBED}
    return OmDescription(
        **said,
        file=path.name,
        size=HEADER_SIZE + header.length,
        soc_version=soc_version if isinstance(soc_version, str) else None,
        partitions=partitions,
        model=model,
        not_read=not_read,
    )


_NOT_DESCRIBED = ("length", "legacy", "soc_version")


def _contents(
    stream: BinaryIO, header: OmHeader
) -> tuple[tuple[OmPartition, ...], OmModel | None, str]:
    """Table, model definition and why one of them was not read."""
    if header.encrypted:
        return (), None, "it is encrypted"
    partitions: tuple[OmPartition, ...] = ()
    try:
        partitions = read_partitions(stream, header)
        return partitions, read_model(model_definition(stream, partitions)), ""
    except ValueError as error:
        return partitions, None, str(error)


def _soc_version(stream: BinaryIO, header: OmHeader) -> str | None:
    """The attribute of ModelDef; None where it is absent or cannot be read."""
    if header.encrypted:
        return None
    try:
        definition = model_definition(stream, read_partitions(stream, header))
        return string_attribute(definition, "soc_version")
    except ValueError:
        return None
