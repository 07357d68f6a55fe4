"""Model definitions encoded by protobuf itself, and .om files around any content."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

KINDS = descriptor_pb2.FieldDescriptorProto
STRING, BYTES, INT32, INT64 = (
    KINDS.TYPE_STRING,
    KINDS.TYPE_BYTES,
    KINDS.TYPE_INT32,
    KINDS.TYPE_INT64,
)
UINT32, BOOL, FLOAT, ENUM = KINDS.TYPE_UINT32, KINDS.TYPE_BOOL, KINDS.TYPE_FLOAT, KINDS.TYPE_ENUM
ONE, MANY = KINDS.LABEL_OPTIONAL, KINDS.LABEL_REPEATED

SCHEMA: dict[str, list[tuple[str, int, int | str, int]]] = {
    "Shape": [("dim", 1, INT64, MANY)],
    "Tensor": [("name", 1, BYTES, ONE), ("dtype", 2, INT32, ONE), ("shape", 3, "Shape", ONE),
               ("layout", 4, BYTES, ONE), ("attr", 5, "Entry", MANY),
               ("size", 10, INT64, ONE)],
    "Entry": [("key", 1, BYTES, ONE), ("value", 2, "Attribute", ONE)],
    "List": [("i", 3, INT64, MANY)],
    "Attribute": [("list", 1, "List", ONE), ("s", 2, BYTES, ONE), ("i", 3, INT64, ONE),
                  ("f", 4, FLOAT, ONE), ("b", 5, BOOL, ONE), ("dt", 15, INT64, ONE),
                  *((f"other{n}", n, BYTES, ONE) for n in (7, 10, 11, 12, 13, 14, 16))],
    "Op": [("name", 1, BYTES, ONE), ("type", 2, BYTES, ONE), ("input", 5, BYTES, MANY),
           ("attr", 10, "Entry", MANY), ("id", 21, INT64, ONE),
           ("input_desc", 33, "Tensor", MANY), ("output_desc", 34, "Tensor", MANY)],
    "Graph": [("name", 1, BYTES, ONE), ("input", 4, BYTES, MANY), ("output", 5, BYTES, MANY),
              ("op", 6, "Op", MANY), ("attr", 11, "Entry", MANY)],
    "Model": [("name", 1, BYTES, ONE), ("version", 2, UINT32, ONE), ("graph", 7, "Graph", MANY),
              ("attr", 11, "Entry", MANY)],
}  # fmt: skip
"""Messages of the model definition with their field numbers.

Text is bytes, so that it need not be text. A map is what it is encoded as, repeated entries.
"""


def _message_classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="om.proto", package="om", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label in fields:
            one = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                one.type, one.type_name = KINDS.TYPE_MESSAGE, f".om.{kind}"
            else:
                one.type = kind
        if name == "Attribute":
            message.oneof_decl.add(name="value")
            for one in message.field:
                one.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    find = pool.FindMessageTypeByName
    return {name: message_factory.GetMessageClass(find(f"om.{name}")) for name in SCHEMA}


MESSAGES = _message_classes()


def tensor(dtype: int, shape: Sequence[int], layout: bytes = b"ND", name: bytes = b"") -> Any:
    return MESSAGES["Tensor"](
        name=name, dtype=dtype, shape=MESSAGES["Shape"](dim=shape), layout=layout
    )


def add(message: Any, key: str, value: Any) -> None:
    """Give a message one more attribute."""
    message.attr.add(key=key.encode(), value=value)


def model_message(attributes: dict[str, bytes | int | bool] | None = None) -> Any:
    """Two inputs, the second one first in the file, a product and two outputs."""
    Op, Attribute = MESSAGES["Op"], MESSAGES["Attribute"]
    model = MESSAGES["Model"](name=b"net", version=3)
    graph = model.graph.add(name=b"net")
    for name, index, dtype in ((b"mask", 1, 8), (b"x", 0, 2)):
        op = graph.op.add(name=name, type=b"Data", output_desc=[tensor(dtype, (1, 16))])
        op.input_desc.append(tensor(1, (9, 9)))
        add(op, "index", Attribute(i=index))
    graph.op.append(Op(name=b"mm", type=b"MatMulV2", input=[b"x:0", b"w:0"]))
    outputs = [tensor(1, (1, 4), name=b"scores"), tensor(0, ())]
    graph.op.append(
        Op(name=b"out", type=b"NetOutput", input=[b"mm:0", b"mm:-1", b"top:1"], input_desc=outputs)
    )
    model.graph.add(name=b"a subgraph").op.add(type=b"Add")
    for key, value in (attributes or {}).items():
        field = "b" if isinstance(value, bool) else "i" if isinstance(value, int) else "s"
        add(model, key, Attribute(**{field: value}))
    return model


def om_file(
    partitions: Sequence[tuple[int, bytes]],
    *,
    legacy: bool = False,
    places: Sequence[tuple[int, int]] | None = None,
    count: int | None = None,
) -> bytes:
    """A whole .om file.

    Args:
        partitions: type and content of each, one behind the other.
        legacy: whether offsets have 32 bits.
        places: offset and size of each as the table is to claim, where they are not true.
        count: number of entries that the table is to claim.
    """
    if places is None:
        ends = [0]
        for _, content in partitions:
            ends.append(ends[-1] + len(content))
        places = [(ends[i], len(content)) for i, (_, content) in enumerate(partitions)]
    number = len(partitions) if count is None else count
    table = struct.pack("<I" if legacy else "<I4x", number)
    for (kind, _), (offset, size) in zip(partitions, places, strict=True):
        table += struct.pack("<III" if legacy else "<I4xQQ", kind, offset, size)
    body = table + b"".join(content for _, content in partitions)
    header = bytearray(256)
    struct.pack_into("<4sII", header, 0, b"IMOD", 256, 0x20000000)
    struct.pack_into("<I", header, 76, len(body) if legacy else 0)
    header[84:87], header[160:163] = b"net", b"3.0"
    struct.pack_into("<I", header, 156, 1)
    struct.pack_into("<Q", header, 184, 0 if legacy else len(body))
    return bytes(header) + body
