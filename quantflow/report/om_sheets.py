"""Tables of what an .om file says of itself."""

from __future__ import annotations

from collections.abc import Iterator

from quantflow.artifacts.om_description import OmDescription, OmModel
from quantflow.printable import LONGEST
from quantflow.report.sheet import Sheet, count_text, shape_text

_SHOWN_APART = "atc_cmdline"
"""A line too long for a table."""


def om_sheets(om: OmDescription) -> Iterator[Sheet]:
    """Header, partitions, inputs and outputs, operators, attributes."""
    yield _header_sheet(om)
    yield _partitions_sheet(om)
    if om.model:
        yield _tensors_sheet(om.model)
        yield _op_types_sheet(om.model)
        yield _attributes_sheet(om.model)


def _header_sheet(om: OmDescription) -> Sheet:
    attributes = om.model.attributes if om.model else {}
    rows = (
        ("model", om.model.name if om.model and om.model.name else om.name),
        ("chip", om.soc_version or "not said"),
        ("atc version", str(attributes.get("atc_version", "not said"))),
        ("platform version", om.platform_version or "not said"),
        ("format version", hex(om.version)),
        ("size, bytes", count_text(om.size)),
        ("shapes", "dynamic" if om.dynamic_shapes else "static"),
        ("models inside", str(om.model_num)),
        ("model type", str(om.model_type)),
        ("encrypted", _yes(om.encrypted)),
        ("checksum", _yes(om.checksum)),
        ("bound to operating system and CPU", _yes(om.needs_os_cpu_check)),
    )
    return Sheet(om.file, ("", "value"), "ll", rows)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _partitions_sheet(om: OmDescription) -> Sheet:
    rows = tuple(
        (str(x.type), x.name, count_text(x.offset), count_text(x.size)) for x in om.partitions
    )
    return Sheet("Partitions", ("type", "holds", "offset", "size, bytes"), "rlrr", rows)


def _tensors_sheet(model: OmModel) -> Sheet:
    sides = (("input", model.inputs), ("output", model.outputs))
    rows = tuple(
        (side, x.name, x.dtype, shape_text(x.shape), x.layout)
        for side, tensors in sides
        for x in tensors
    )
    return Sheet("Inputs and outputs", ("", "name", "dtype", "shape", "layout"), "lllll", rows)


def _op_types_sheet(model: OmModel) -> Sheet:
    ordered = sorted(model.op_types.items(), key=lambda x: (-x[1], x[0]))
    rows = tuple((kind, count_text(count)) for kind, count in ordered)
    note = f"{count_text(sum(model.op_types.values()))} operators."
    return Sheet("Operators", ("type", "number"), "lr", rows, note)


def _attributes_sheet(model: OmModel) -> Sheet:
    rows = tuple(
        (name, str(value))
        for name, value in sorted(model.attributes.items())
        if name != _SHOWN_APART
    )
    cut = any(len(value) > LONGEST for _, value in rows)
    note = "Long values are cut; --json has all." if cut else ""
    return Sheet("Attributes of the model", ("name", "value"), "ll", rows, note)
